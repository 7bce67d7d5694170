import { Environment, Network, Observable, RecordSource, Store } from "relay-runtime";
import { overSocket } from "./graphql-ws.js";
import { resuming } from "./resuming.js";
import { signed } from "./signed.js";

export function relay(url, token) {
  const socket = overSocket(url, token);
  const post = signed(token);
  const request = ({ id, text }, variables) => ({ query: text ?? "", documentId: id ?? undefined, variables });
  const ask = async (operation, variables) => {
    const answer = await post(url, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(request(operation, variables)),
    });
    return answer.json();
  };
  const listen = (operation, variables) =>
    Observable.create((sink) => resuming(socket).subscribe(request(operation, variables), sink));
  const environment = new Environment({
    network: Network.create(ask, listen),
    store: new Store(new RecordSource()),
  });
  return { environment, socket, close: () => socket.dispose() };
}
