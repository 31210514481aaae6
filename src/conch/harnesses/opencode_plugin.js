// Written by `conch install`; `conch uninstall` removes it.
// It tells conch what happens in a session, and shows the model what conch answers. If conch fails, it does nothing.
import { spawn } from "node:child_process"

const PROGRAM = "@PROGRAM@"
const HARNESS = "@HARNESS@"

function ask(event, input) {
  return new Promise((resolve) => {
    const child = spawn(PROGRAM, ["hook", event, "--harness", HARNESS], { cwd: input.cwd, timeout: 5000 })
    let text = ""
    child.stdout.on("data", (chunk) => (text += chunk))
    child.on("error", () => resolve({}))
    child.on("close", () => {
      try {
        resolve(JSON.parse(text || "{}"))
      } catch {
        resolve({})
      }
    })
    child.stdin.on("error", () => {})
    child.stdin.end(JSON.stringify(input))
  })
}

export const conch = async ({ client, directory }) => {
  const pending = new Map() // what the model of a session has yet to read
  const begun = new Map() // when a session is known to conch
  const held = new Set() // the sessions that were just kept from stopping
  const parents = new Map() // of the sessions of subagents, which belong to their parent's agent
  const rootOf = (sessionID) => (parents.has(sessionID) ? rootOf(parents.get(sessionID)) : sessionID)
  const base = (sessionID) => {
    const subagent = parents.has(sessionID) ? { agent_id: sessionID, agent_type: "subagent" } : {}
    return { session_id: rootOf(sessionID), cwd: directory, ...subagent }
  }
  const keep = (sessionID, answer) => {
    if (answer.context) pending.set(sessionID, `${pending.get(sessionID) ?? ""}\n\n${answer.context}`)
  }
  const take = (sessionID) => {
    const text = pending.get(sessionID) ?? ""
    pending.delete(sessionID)
    return text
  }
  return {
    event: async ({ event }) => {
      const info = event.properties?.info ?? {}
      const sessionID = event.properties?.sessionID ?? info.id
      if (!event.type.startsWith("session.")) return // a message has a parent too
      if (info.parentID) parents.set(sessionID, info.parentID)
      if (parents.has(sessionID)) return
      if (event.type === "session.created") {
        begun.set(sessionID, ask(event.type, base(sessionID)).then((answer) => keep(sessionID, answer)))
      }
      if (event.type === "session.deleted") await ask(event.type, base(sessionID))
      if (event.type !== "session.idle") return
      const answer = await ask(event.type, { ...base(sessionID), stop_hook_active: held.delete(sessionID) })
      if (!answer.block) return
      held.add(sessionID)
      const body = { parts: [{ type: "text", text: answer.block }] }
      client.session.prompt({ path: { id: sessionID }, body }).catch(() => {})
    },
    "chat.message": async ({ sessionID }, output) => {
      const part = output.parts.find((each) => each.type === "text")
      await begun.get(sessionID) // so that the first prompt already says who is here
      keep(sessionID, await ask("chat.message", { ...base(sessionID), prompt: part?.text }))
      if (part) part.text += take(sessionID)
    },
    "tool.execute.before": async ({ tool, sessionID }, { args }) => {
      const answer = await ask("tool.execute.before", { ...base(sessionID), tool_name: tool, tool_input: args })
      if (answer.deny) throw new Error(answer.deny)
      keep(sessionID, answer)
    },
    "tool.execute.after": async ({ tool, sessionID }, output) => {
      if (typeof output?.output !== "string") return // the result of an MCP tool cannot be extended
      keep(sessionID, await ask("tool.execute.after", { ...base(sessionID), tool_name: tool }))
      output.output += take(sessionID)
    },
    "shell.env": async ({ sessionID }, output) => {
      if (sessionID) output.env.OPENCODE_SESSION_ID = rootOf(sessionID)
    },
  }
}
