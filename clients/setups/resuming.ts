import type { FormattedExecutionResult, GraphQLFormattedError } from "graphql";
import { waiting } from "./waiting.ts";

/** What the clients of `graphql-ws` and `graphql-sse` have in common. */
export interface Subscriber {
  subscribe(request: { query: string; variables?: Record<string, unknown> | null }, sink: Sink): () => void;
}

export interface Sink {
  next(result: FormattedExecutionResult): void;
  error(error: unknown): void;
  complete(): void;
}

const LATER = ["OVERLOADED", "RATE_LIMITED"];

/**
 * The same client. When a subscription starts again, it sends the id of the last event as `after`. It starts again with
 * another token if its token has expired, and after a pause if the service has too much to do.
 */
export function resuming<Client extends Subscriber>(client: Client): Client {
  const subscribe: Subscriber["subscribe"] = (request, sink) => {
    const variables = { ...request.variables }; // read again for every connection
    let leave: () => void;
    let pauses = 0; // since the last event
    let pause: (() => Promise<void>) | undefined; // before it starts again
    let isPaused = false;
    let isStopped = false;
    const next: Sink["next"] = (result) => {
      const [event] = Object.values(result.data ?? {}) as ({ id?: string } | null)[];
      if (event?.id) variables["after"] = event.id;
      pause = pauseFor(result.errors);
      if (result.data) pauses = 0;
      if (!pause) sink.next(result);
    };
    const pauseFor = (errors: readonly GraphQLFormattedError[] = []) => {
      const codes = errors.map(({ extensions }) => String(extensions?.["code"]));
      if (codes.includes("UNAUTHENTICATED")) return () => Promise.resolve();
      return codes.some((code) => LATER.includes(code)) ? () => waiting(pauses++) : undefined;
    };
    // An event stream completes after the error that ends it, and also when it is stopped.
    const complete = () => (pause && !isStopped ? void startAgain(pause) : sink.complete());
    const error: Sink["error"] = (fault) => {
      pause = Array.isArray(fault) ? pauseFor(fault) : undefined; // of a websocket
      if (pause && !isStopped) void startAgain(pause);
      else sink.error(fault);
    };
    const startAgain = async (pause: () => Promise<void>) => {
      isPaused = true;
      await pause();
      isPaused = false;
      if (!isStopped) listen();
    };
    const listen = () => {
      pause = undefined;
      leave = client.subscribe({ ...request, variables }, { next, error, complete });
    };
    listen();
    return () => {
      isStopped = true;
      if (isPaused) sink.complete();
      else leave();
    };
  };
  return { ...client, subscribe };
}
