/** The `token` of all set-ups: held until it is refused, and fetched once however many requests wait for it. */
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
