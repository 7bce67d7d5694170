// The config of the page: the endpoint, the demo tokens, the examples.

export const config = JSON.parse(document.getElementById("config").textContent);

/** In the order of the examples. */
export const roles = [...new Set(config.examples.map(({ role }) => role))];

export const isTouched = matchMedia("(pointer: coarse)").matches;

/** So that the key that runs the query works. On a phone it would open the keyboard. */
export const focusQuery = (queryEditor) => isTouched || queryEditor.focus();
