// Whose token a tab runs with: read from its headers, shown and chosen beside Run, and all that is kept of a token.

import { pick, useGraphiQL, useGraphiQLActions } from "@graphiql/react";
import { config, roles } from "./config.js";

const OWN = "own token";
const NOBODY = "nobody";
const BEGUN = '{\n  "Authorization": "bearer "\n}';

/** A role, one's own token, or nobody's. */
export function whose(headers) {
  const role = roles.find((each) => config.tokens[each] && headers?.includes(config.tokens[each]));
  return role ?? (/"authorization"\s*:\s*"(bearer\s+)?(?!bearer\b)[^\s"…]/i.test(headers ?? "") ? OWN : NOBODY);
}

/** One's own token is not kept, so there are no headers for it. */
export function headersFor(who) {
  const token = config.tokens[who];
  return token ? JSON.stringify({ Authorization: `bearer ${token}` }, null, 2) : "";
}

export function Whose() {
  const { tabs, activeTabIndex, headerEditor } = useGraphiQL(pick("tabs", "activeTabIndex", "headerEditor"));
  const { updateActiveTabValues } = useGraphiQLActions();
  const who = whose(tabs[activeTabIndex]?.headers);
  const write = (headers) => {
    headerEditor.setValue(headers);
    updateActiveTabValues({ headers });
  };
  const writeOwn = () => {
    if (who !== OWN) write(BEGUN);
    document.querySelector(".graphiql-editor-tools [data-name=headers]").click();
    headerEditor.setPosition({ lineNumber: 2, column: BEGUN.split("\n")[1].length });
    setTimeout(() => headerEditor.focus()); // once it is shown
  };
  return (
    <div className="whose" role="group" aria-label="Whose token this tab runs with">
      <span>as</span>
      {roles.filter((each) => config.tokens[each]).map((each) => (
        <button key={each} type="button" aria-pressed={who === each} onClick={() => write(headersFor(each))}>
          {each}
        </button>
      ))}
      <button type="button" aria-pressed={who === OWN} onClick={writeOwn}>{OWN}</button>
      <span role="status">{who === NOBODY && "Nobody is signed in: a token is missing in Headers."}</span>
    </div>
  );
}
