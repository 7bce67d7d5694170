/** The `token` of all setups: cached until it is rejected, and fetched once for all waiting requests. */
export function tokenFrom(fetchToken) {
  let held, fetching;
  return async (refused) => {
    if (held === undefined || held === refused) {
      fetching ??= fetchToken().finally(() => (fetching = undefined));
      held = await fetching;
    }
    return held;
  };
}
