// Signs the person in, connects to the service and shows the page of the role.

import { type ApolloClient, CombinedGraphQLErrors, type ErrorLike } from "@apollo/client";
import { ApolloProvider, useQuery } from "@apollo/client/react";
import { StrictMode, useEffect, useState } from "react";
import { createRoot } from "react-dom/client";
import { apollo } from "../setups/apollo.ts";
import { Caregiving } from "./Caregiving.tsx";
import { Homework } from "./Homework.tsx";
import { VIEWER } from "./operations.ts";
import "./style.css";

const url = import.meta.env.VITE_GRAPHQL_URL ?? "http://127.0.0.1:8000/graphql";
const developer = import.meta.env.DEV ? import.meta.env.VITE_TOKEN : undefined; // not in a build

function App() {
  const [token, setToken] = useState(developer);
  const [isRejected, setRejected] = useState(false);
  const [client, setClient] = useState<ApolloClient>();

  useEffect(() => {
    if (!token) return undefined;
    let isCurrent = true; // a late response must not end the session of the next token
    // With an identity provider: apollo(url, tokenFrom(fetchToken)).
    const { client, close } = apollo(url, async (rejected) => {
      if (rejected && isCurrent) {
        setRejected(true);
        setToken(undefined);
      }
      return token;
    });
    setClient(client);
    return () => {
      isCurrent = false;
      setClient(undefined);
      close();
    };
  }, [token]);

  if (!token) return <SignIn isRejected={isRejected} onSignIn={setToken} />;
  if (!client) return null;
  return (
    <ApolloProvider client={client}>
      <PageOfRole />
    </ApolloProvider>
  );
}

function PageOfRole() {
  const { data, error } = useQuery(VIEWER);
  if (!data?.viewer) return error ? <p role="alert">{textOf(error)}</p> : <p role="status">Loading…</p>;
  return data.viewer.role === "CAREGIVER" ? <Caregiving /> : <Homework />;
}

function textOf(error: ErrorLike): string {
  const isForbidden = CombinedGraphQLErrors.is(error) && error.errors.some((one) => one.extensions?.["code"] === "FORBIDDEN");
  return isForbidden ? "There is no enabled account for this token." : "The service cannot be reached.";
}

function SignIn({ isRejected, onSignIn }: { isRejected: boolean; onSignIn: (token: string) => void }) {
  return (
    <main>
      <h1>Homework</h1>
      {isRejected && <p role="alert">The token is invalid or expired. Sign in again.</p>}
      <form action={(form) => onSignIn(String(form.get("token")).trim())}>
        <label htmlFor="token">Access token</label>
        <input id="token" name="token" type="password" autoComplete="off" required />
        <button>Sign in</button>
      </form>
    </main>
  );
}

createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <App />
  </StrictMode>,
);
