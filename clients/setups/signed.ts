import type { Token } from "./token.ts";

/** A `fetch` that sends the token. After a 401 it repeats the request once, with another token. */
export function signed(token: Token): typeof fetch {
  return async (...[address, request]) => {
    const send = (given: string) => {
      const headers = new Headers(request?.headers);
      headers.set("authorization", `bearer ${given}`);
      return fetch(address, { ...request, headers });
    };
    const given = await token();
    const response = await send(given);
    return response.status === 401 ? send(await token(given)) : response;
  };
}
