// The reference of the legacy paths: Scalar, with a demo token for each role and homework that starts tomorrow.

import "@scalar/api-reference/style.css";
import "./page.css";
import { createApiReference } from "@scalar/api-reference";

const { tokens, homework } = JSON.parse(document.getElementById("config").textContent);

/** Gives each role its own token: the description has one scheme for both, and Scalar one token for each scheme. */
async function description() {
  const found = await (await fetch("/openapi.json")).json();
  const { bearer } = found.components.securitySchemes;
  found.components.securitySchemes = { caregiver: bearer, client: bearer };
  found.security = [{ caregiver: [] }, { client: [] }];
  for (const operation of Object.values(found.paths).flatMap(Object.values)) {
    if (operation.tags) operation.security = [{ [operation.tags[0].toLowerCase()]: [] }];
    if (operation.requestBody) operation.requestBody.content["application/json"].examples = { homework: { value: homework } };
  }
  return found;
}

// The original texts overlap the heading of their box.
const authSelector = { selectedType: "Role: {type}", multipleTypes: "Both roles", selectType: "Select a role" };
const withToken = Object.entries(tokens).map(([role, token]) => [role, { token }]);

document.getElementById("page").replaceChildren(); // Scalar takes content for its own, rendered on a server
createApiReference("#page", {
  content: await description(),
  authentication: { securitySchemes: Object.fromEntries(withToken) },
  localization: { translations: { apiClient: { authSelector } } },
  theme: "none",
  withDefaultFonts: false,
  telemetry: false,
  agent: { disabled: true },
  mcp: { disabled: true },
  showDeveloperTools: "never",
  hideClientButton: true,
  hideDarkModeToggle: true,
  documentDownloadType: "none",
  generateOperationSlug: ({ operationId }) => operationId,
  defaultHttpClient: { targetKey: "shell", clientKey: "curl" },
});

// Where the response is below the request, it comes into view when it arrives.
addEventListener("click", ({ target }) => {
  const client = target.closest("button")?.textContent.trim().startsWith("Send") && target.closest(".scalar-client");
  if (!client) return;
  const observer = new MutationObserver(() => {
    const header = client.querySelector(".request-response-header:has(.animate-response-heading)");
    if (!header) return;
    observer.disconnect();
    header.parentElement.scrollIntoView({ block: "start" });
  });
  observer.observe(client, { childList: true, subtree: true, characterData: true });
});
