// A client of the TypeScript SDK that does what it is told on standard input, one JSON object a line, and answers with
// one line each. First comes {"command", "args", "env"} of the server to start. The end of the input ends it.

import { createInterface } from "node:readline";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const client = new Client({ name: "hintcell-test", version: "1" });
const say = (answer) => process.stdout.write(JSON.stringify(answer) + "\n");
let started = false;

for await (const line of createInterface({ input: process.stdin })) {
  const told = JSON.parse(line);
  try {
    if (!started) {
      await client.connect(new StdioClientTransport({ ...told, stderr: "inherit" }));
      started = true;
      say({ server: client.getServerVersion(), instructions: client.getInstructions() });
    } else if (told.list) {
      say(await client.listTools());
    } else {
      // Checks the structured content against the tool's output schema, once the tools have been listed.
      say(await client.callTool({ name: told.call, arguments: told.arguments }));
    }
  } catch (error) {
    say({ thrown: String(error) });
  }
}
await client.close();
