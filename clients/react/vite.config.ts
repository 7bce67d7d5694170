import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// No proxy: the service allows pages of loopback origins in development, and CARE_CORS_ORIGINS in production.
export default defineConfig({
  plugins: [react()],
  server: { host: "127.0.0.1" },
  build: { outDir: "../made/react", emptyOutDir: true },
});
