// A page as React renders it, without a browser.

import { act, create } from "react-test-renderer";

globalThis.IS_REACT_ACT_ENVIRONMENT = true;
globalThis.IS_REACT_NATIVE_TEST_ENVIRONMENT = true; // or it would say that browsers are better

/** What says the texts of the list that is shown. */
export async function rendered(page) {
  let root;
  await act(async () => (root = create(page)));
  return () => [root.toJSON()].flat().map(({ children }) => children.join(""));
}
