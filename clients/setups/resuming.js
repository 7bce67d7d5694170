/** The same client; a subscription that comes again begins behind the last event, whose id it sends as `after`. */
export function resuming(client) {
  const subscribe = (request, sink) => {
    const variables = { ...request.variables }; // read again for every connection
    let leave;
    let isExpired = false;
    const next = (result) => {
      const [event] = Object.values(result.data ?? {});
      if (event?.id) variables.after = event.id;
      isExpired = !!result.errors?.some(({ extensions }) => extensions?.code === "UNAUTHENTICATED");
      if (!isExpired) sink.next(result);
    };
    const complete = () => (isExpired ? listen() : sink.complete()); // how event streams end when the token does
    const error = (fault) => sink.error(fault);
    const listen = () => (leave = client.subscribe({ ...request, variables }, { next, error, complete }));
    listen();
    return () => leave();
  };
  return { ...client, subscribe };
}
