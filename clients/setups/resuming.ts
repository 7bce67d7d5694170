import type { FormattedExecutionResult } from "graphql";

/** What the clients of `graphql-ws` and `graphql-sse` have in common. */
export interface Subscriber {
  subscribe(request: { query: string; variables?: Record<string, unknown> | null }, sink: Sink): () => void;
}

export interface Sink {
  next(result: FormattedExecutionResult): void;
  error(error: unknown): void;
  complete(): void;
}

/** The same client. When a subscription starts again, it sends the id of the last event as `after`. */
export function resuming<Client extends Subscriber>(client: Client): Client {
  const subscribe: Subscriber["subscribe"] = (request, sink) => {
    const variables = { ...request.variables }; // read again for every connection
    let leave: () => void;
    let isExpired = false;
    let isStopped = false;
    const next: Sink["next"] = (result) => {
      const [event] = Object.values(result.data ?? {}) as ({ id?: string } | null)[];
      if (event?.id) variables["after"] = event.id;
      isExpired = !!result.errors?.some(({ extensions }) => extensions?.["code"] === "UNAUTHENTICATED");
      if (!isExpired) sink.next(result);
    };
    // An event stream completes when the token expires, and also when it is stopped.
    const complete = () => (isExpired && !isStopped ? listen() : sink.complete());
    const error: Sink["error"] = (fault) => sink.error(fault);
    const listen = () => {
      isExpired = false;
      leave = client.subscribe({ ...request, variables }, { next, error, complete });
    };
    listen();
    return () => {
      isStopped = true;
      leave();
    };
  };
  return { ...client, subscribe };
}
