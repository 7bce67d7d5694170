// The examples: a pane with a button for each, which opens a tab with the token of its role.

import { pick, useGraphiQL, useGraphiQLActions } from "@graphiql/react";
import { config, focusQuery, roles } from "./config.js";
import { headersFor } from "./tokens.jsx";

const examples = config.examples.map(({ role, title, query, variables, replaces, hint }) => {
  const lines = [`# ${title}`, replaces && `# Replaces ${replaces}`, hint && `# ${hint}`];
  const text = [...lines.filter(Boolean), "", query].join("\n");
  return { role, title, replaces, query: text, variables, headers: headersFor(role), kind: /^\w+/.exec(query)[0] };
});

const of = (role) => examples.filter((example) => example.role === role);

/** The tabs of a new page: one for each role. */
export const firstTabs = roles.map((role) => of(role)[0]);

export const EXAMPLES = { title: "Examples", icon: Icon, content: Examples };

/** Opens an operation in its tab, or in a new one. */
export function show({ query, variables, headers }, { tabs, queryEditor, variableEditor, headerEditor }, actions, isSame = () => true) {
  const open = tabs.findIndex((tab) => tab.query === query && tab.headers === headers && isSame(tab));
  if (open >= 0) actions.changeTab(open);
  else {
    actions.addTab();
    queryEditor.setValue(query);
    variableEditor.setValue(variables);
    headerEditor.setValue(headers);
    actions.updateActiveTabValues({ query, variables, headers });
  }
  focusQuery(queryEditor);
  if (!narrow.matches) return;
  actions.setVisiblePlugin(null);
  if (variables) document.querySelector(".graphiql-editor-tools [data-name=variables]").click(); // opens them
}

function Examples() {
  const editors = useGraphiQL(pick("tabs", "queryEditor", "variableEditor", "headerEditor"));
  const actions = useGraphiQLActions();
  return (
    <section className="examples">
      <h2>Examples</h2>
      {Object.keys(config.tokens).length === 0 && (
        <p>They need a token in Headers: <code>{'{"Authorization": "bearer …"}'}</code></p>
      )}
      {roles.map((role) => (
        <div key={role}>
          <h3>As a {role}</h3>
          {of(role).map((example) => (
            <button key={example.title} type="button" onClick={() => show(example, editors, actions)}>
              {example.title}
              <small>
                <b>{example.kind}</b>
                {example.replaces && <>, replaces <code>{breakable(example.replaces)}</code></>}
              </small>
            </button>
          ))}
        </div>
      ))}
    </section>
  );
}

/** As in page.css: the examples then cover the editor instead of standing beside it. */
export const narrow = matchMedia("(max-width: 800px)");

const breakable = (path) => path.split(/(?<=\w[/?])/).flatMap((part, index) => [part, <wbr key={index} />]);

function Icon() {
  return (
    <svg viewBox="0 0 24 24" fill="none" stroke="currentColor" strokeWidth="1.5" height="1em">
      <path strokeLinecap="round" strokeLinejoin="round" d="M4 5h16M4 10h9M4 15h6M4 20h6m5-7v8l6-4z" />
    </svg>
  );
}
