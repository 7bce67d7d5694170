/** A `fetch` that sends the token. After a 401 it repeats the request once, with another token. */
export function signed(token) {
  const ask = (address, request, given) => {
    const headers = new Headers(request.headers);
    headers.set("authorization", `bearer ${given}`);
    return fetch(address, { ...request, headers });
  };
  return async (address, request) => {
    const given = await token();
    const answer = await ask(address, request, given);
    return answer.status === 401 ? ask(address, request, await token(given)) : answer;
  };
}
