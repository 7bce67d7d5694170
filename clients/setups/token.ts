/** Returns the access token. Called with a rejected token, it must return another. */
export type Token = (rejected?: string) => Promise<string>;

/** The `token` of all setups: cached until it is rejected, and fetched once for all waiting requests. */
export function tokenFrom(fetchToken: () => Promise<string>): Token {
  let held: string | undefined;
  let fetching: Promise<string> | undefined;
  return async (rejected) => {
    if (held === undefined || held === rejected) {
      fetching ??= fetchToken().finally(() => (fetching = undefined));
      held = await fetching;
    }
    return held;
  };
}
