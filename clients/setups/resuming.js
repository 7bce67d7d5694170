/** The same client. When a subscription starts again, it sends the id of the last event as `after`. */
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
    const complete = () => (isExpired ? listen() : sink.complete()); // an event stream completes when the token expires
    const error = (fault) => sink.error(fault);
    const listen = () => (leave = client.subscribe({ ...request, variables }, { next, error, complete }));
    listen();
    return () => leave();
  };
  return { ...client, subscribe };
}
