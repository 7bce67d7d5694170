// What the service tells the page: where to ask, the demo tokens, the examples.

export const config = JSON.parse(document.getElementById("config").textContent);

/** In the order of the examples. */
export const roles = [...new Set(config.examples.map(({ role }) => role))];
