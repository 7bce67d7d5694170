import { Environment, Network, Observable, RecordSource, Store } from "relay-runtime";
import { overSocket } from "./graphql-ws.js";

export function relay(url, token) {
  const socket = overSocket(url, token);
  const request = ({ id, text }, variables) => ({ query: text ?? "", documentId: id ?? undefined, variables });
  const ask = async (operation, variables) => {
    const answer = await fetch(url, {
      method: "POST",
      headers: { authorization: `bearer ${await token()}`, "content-type": "application/json" },
      body: JSON.stringify(request(operation, variables)),
    });
    return answer.json();
  };
  const listen = (operation, variables) =>
    Observable.create((sink) => socket.subscribe(request(operation, variables), sink));
  const environment = new Environment({
    network: Network.create(ask, listen),
    store: new Store(new RecordSource()),
  });
  return { environment, close: () => socket.dispose() };
}
