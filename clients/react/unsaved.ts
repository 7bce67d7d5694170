// What a person has typed and the service has not stored, also while another row is open or after a new sign-in.

import { useSyncExternalStore } from "react";

const every: Map<string, unknown>[] = [];

addEventListener("beforeunload", (event) => {
  if (every.some(({ size }) => size)) event.preventDefault(); // the browser asks whether to leave the page
});

/** By the id of what it belongs to. */
export function unsaved<Text>() {
  const texts = new Map<string, Text>();
  const listeners = new Set<() => void>();
  every.push(texts);

  const get = (id: string) => texts.get(id);
  const subscribe = (listener: () => void) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  };
  return {
    get,
    set(id: string, text?: Text) {
      if (text === undefined) texts.delete(id);
      else texts.set(id, text);
      for (const listener of listeners) listener();
    },
    use: (id: string) => useSyncExternalStore(subscribe, () => get(id)),
  };
}
