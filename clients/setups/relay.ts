import {
  Environment,
  type FetchFunction,
  type GraphQLResponse,
  Network,
  Observable,
  RecordSource,
  type RequestParameters,
  Store,
  type SubscribeFunction,
  type Variables,
} from "relay-runtime";
import { overSocket } from "./graphql-ws.ts";
import { resuming, type Sink } from "./resuming.ts";
import { signed } from "./signed.ts";
import type { Token } from "./token.ts";

export function relay(url: string, token: Token) {
  const socket = overSocket(url, token);
  const post = signed(token);
  const request = ({ id, text }: RequestParameters, variables: Variables) => ({
    query: text ?? "",
    documentId: id ?? undefined,
    variables,
  });
  const fetchOnce: FetchFunction = async (operation, variables) => {
    const response = await post(url, {
      method: "POST",
      headers: {
        accept: "application/graphql-response+json, application/json;q=0.9",
        "content-type": "application/json",
      },
      body: JSON.stringify(request(operation, variables)),
    });
    return response.json() as Promise<GraphQLResponse>;
  };
  const listen: SubscribeFunction = (operation, variables) =>
    Observable.create((sink) => resuming(socket).subscribe(request(operation, variables), sink as Sink));
  const environment = new Environment({
    network: Network.create(fetchOnce, listen),
    store: new Store(new RecordSource()),
  });
  return { environment, socket, close: () => socket.dispose() };
}
