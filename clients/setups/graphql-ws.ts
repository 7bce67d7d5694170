import { createClient } from "graphql-ws";
import type { Token } from "./token.ts";
import { waiting } from "./waiting.ts";

/** `webSocketImpl` is the class of sockets: in Node before 22, or behind a proxy, that of npm `ws`. */
export function overSocket(url: string, token: Token, webSocketImpl?: unknown) {
  let given: Promise<string> | undefined, rejected: typeof given;
  let isClosed = false;
  let silence: ReturnType<typeof setTimeout> | undefined;
  const address = url.replace("http", "ws");
  const client = createClient({
    // For each connection, and before it, because the service waits only ten seconds for the first message.
    url: async () => {
      given = token(await rejected);
      await given.catch(() => {}); // connectionParams throws the error, and the client connects again
      return address;
    },
    webSocketImpl,
    connectionParams: async () => {
      if (isClosed) throw new Error("the client is closed");
      return { authorization: `bearer ${await given}` };
    },
    keepAlive: 15_000,
    on: {
      ping: (isReceived) => isReceived || (silence = setTimeout(() => client.terminate(), 5_000)),
      pong: (isReceived) => isReceived && clearTimeout(silence),
      closed: (event) => {
        clearTimeout(silence);
        rejected = (event as { code?: number }).code === 4403 ? given : undefined;
      },
    },
    retryAttempts: Infinity,
    retryWait: waiting,
    shouldRetry: () => true, // also if the connection is refused, as during a restart of the service
  });
  /** Final: no token is sent afterwards. */
  const dispose = async () => {
    isClosed = true;
    await Promise.resolve(client.dispose()).catch(() => {}); // a connection may fail meanwhile
  };
  return { ...client, dispose };
}
