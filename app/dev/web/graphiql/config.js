// The config of the page: the endpoint, the demo tokens, the examples.

export const config = JSON.parse(document.getElementById("config").textContent);

/** In the order of the examples. */
export const roles = [...new Set(config.examples.map(({ role }) => role))];
