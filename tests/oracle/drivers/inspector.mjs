// The inspector's command line, many times in one process:  node inspector.mjs CLI_MODULE
//
// Each line of input is a list of its arguments, and is answered with one line: what it printed, as a JSON string.
// Loading the inspector takes ten times as long as one call of a tool.
import { createInterface } from "node:readline";

const { runCli } = await import(process.argv[2]);
const print = process.stdout.write.bind(process.stdout);

for await (const line of createInterface({ input: process.stdin })) {
  let printed = "";
  process.stdout.write = (text, ...rest) => {
    printed += text;
    rest.filter((each) => typeof each === "function").forEach((done) => done());
    return true;
  };
  try {
    await runCli(["node", "mcp-inspector", ...JSON.parse(line)]);
  } catch (error) {
    console.error(error); // a tool that refuses is an error to it, too, after its result was printed
  }
  process.stdout.write = print;
  print(JSON.stringify(printed) + "\n");
}
