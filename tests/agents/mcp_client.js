// A session's program in a cage: by the public SDK of MCP it uses every tool of pinfold-mcp, and prints what they said as
// one line of JSON. Started by a task, which it reports on at the end.
// Usage: node mcp_client.js NODE_MODULES WORKER FILE
'use strict';
const [, , modules, worker, file] = process.argv;
const fs = require('fs');
const { createRequire } = require('module');
const load = createRequire(modules + '/x.js');
const { Client } = load('@modelcontextprotocol/sdk/client/index.js');
const { StdioClientTransport } = load('@modelcontextprotocol/sdk/client/stdio.js');

const said = {};

async function main() {
  const own = fs.readFileSync(0, 'utf8').match(/^\[shrooms task (\S+) from/)?.[1];
  if (!own) return;
  const client = new Client({ name: 'test', version: '1' });
  await client.connect(new StdioClientTransport({ command: '/run/pinfold-mcp', args: [], env: process.env }));
  said.server = client.getServerVersion();
  said.tools = (await client.listTools()).tools.map((each) => each.name);
  const call = async (name, args) => {
    const got = await client.callTool({ name, arguments: args });
    return { text: got.content.map((part) => part.text).join(''), error: got.isError ?? false };
  };
  said.agents = await call('list_agents', {});
  said.asked = await call('ask_agent', { to: worker, text: 'DONE all is well', title: 'a look' });
  const id = said.asked.text.match(/^task (\S+):/)?.[1];
  said.status = await call('task_status', { task: id });
  said.file = await call('send_file', { to: worker, path: file, note: 'for you' });
  said.acked = await call('task_ack', { task: id });
  said.other = await call('task_update', { task: id.split('/')[1], state: 'done', summary: 'forged' });
  said.nobody = await call('ask_agent', { to: 'nowhere/x', text: 'DONE it' });
  said.unknown = await call('no_such_tool', {});
  said.own = await call('task_update', { task: own, state: 'done', summary: 'used every tool' });
  await client.close();
}

main().catch((error) => { said.error = String(error.stack ?? error); }).finally(() => {
  if (Object.keys(said).length > 0) console.log(JSON.stringify(said));
});
