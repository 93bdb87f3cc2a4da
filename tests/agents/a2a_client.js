// Drives an agent's A2A endpoint by the public SDK, and prints what came as one line of JSON.
// Usage: node a2a_client.js NODE_MODULES AGENT_URL SESSION
'use strict';
const [, , modules, base, session] = process.argv;
const { createRequire } = require('module');
const load = createRequire(modules + '/x.js');
const { ClientFactory, DefaultAgentCardResolver } = load('@a2a-js/sdk/client');
const { Role, TaskState } = load('@a2a-js/sdk');

const said = {};
const name = (state) => Object.keys(TaskState).find((key) => TaskState[key] === state) ?? String(state);
const words = (message) => (message?.parts ?? []).map((part) => part.content.value).join(' ');
let count = 0;
const ask = (text, more = {}, configuration = undefined) => ({
  tenant: '', metadata: undefined, configuration,
  message: { messageId: `m-${++count}`, contextId: '', taskId: '', role: Role.ROLE_USER, extensions: [],
    referenceTaskIds: [], metadata: { 'shrooms/from': 'laptop/sdk' },
    parts: [{ content: { $case: 'text', value: text }, filename: '', mediaType: '', metadata: undefined }], ...more },
});
const at_once = { acceptedOutputModes: [], returnImmediately: true };
const task_params = (id) => ({ tenant: '', id, metadata: undefined });

async function until(client, id, state) {
  for (let i = 0; i < 600; ++i) {
    const task = await client.getTask({ tenant: '', id });
    if (task.status.state === state) return task;
    await new Promise((done) => setTimeout(done, 50));
  }
  throw new Error(`${id} does not become ${name(state)}`);
}
async function failure(act) {
  try { await act(); return 'no failure'; } catch (error) { return `${error.constructor.name}: ${error.message}`; }
}

async function main() {
  const resolver = new DefaultAgentCardResolver();
  const machine = await resolver.resolve(base);
  said.machine = { name: machine.name, skills: machine.skills.map((each) => each.id), streaming: machine.capabilities.streaming };
  const card = await resolver.resolve(base, `a2a/${session}/.well-known/agent-card.json`);
  said.card = { name: card.name, url: card.supportedInterfaces[0].url, version: card.supportedInterfaces[0].protocolVersion };
  const client = await new ClientFactory().createFromAgentCard(card);

  let task = await client.sendMessage(ask('DONE the first result', {}, at_once));
  said.at_once = { id: task.id, state: name(task.status.state), asked: words(task.history[0]) };
  task = await until(client, task.id, TaskState.TASK_STATE_COMPLETED);
  said.got = { id: task.id, artifact: words(task.artifacts[0]), from: task.metadata['shrooms/from'] };

  task = await client.sendMessage(ask('DONE the second result')); // waits, as the specification has it
  said.waited = { state: name(task.status.state), artifact: words(task.artifacts[0]) };

  const events = [];
  for await (const event of client.sendMessageStream(ask('DONE the third result'))) {
    const value = event.payload.value;
    events.push([event.payload.$case, name(value.status.state)]);
  }
  said.streamed = events;

  task = await client.sendMessage(ask('BLOCK which one?'));
  said.blocked = { state: name(task.status.state), question: words(task.status.message) };
  task = await client.sendMessage(ask('DONE that one', { taskId: task.id }));
  said.answered = { state: name(task.status.state), asked: task.history.map(words) };

  task = await client.sendMessage(ask('WAIT', {}, at_once));
  await until(client, task.id, TaskState.TASK_STATE_WORKING);
  const followed = [];
  let begun;
  const has_begun = new Promise((done) => { begun = done; });
  const following = (async () => {
    for await (const event of client.resubscribeTask(task_params(task.id))) {
      followed.push([event.payload.$case, name(event.payload.value.status.state)]);
      begun();
    }
  })();
  await has_begun;
  const canceled = await client.cancelTask(task_params(task.id));
  await following;
  said.canceled = { id: canceled.id === task.id, state: name(canceled.status.state), followed };
  said.twice = await failure(() => client.cancelTask(task_params(task.id)));
  said.unknown = await failure(() => client.getTask({ tenant: '', id: `${session}:nothing` }));
  said.empty = await failure(() => client.sendMessage(ask('')));

  const all = await client.listTasks({ tenant: '', contextId: '', status: 0, pageToken: '' });
  said.list = { total: all.totalSize, ids: all.tasks.map((each) => each.id), next: all.nextPageToken };
  const page = await client.listTasks({ tenant: '', contextId: '', status: TaskState.TASK_STATE_COMPLETED, pageSize: 3, pageToken: '' });
  const rest = await client.listTasks({ tenant: '', contextId: '', status: TaskState.TASK_STATE_COMPLETED, pageSize: 3, pageToken: page.nextPageToken });
  said.pages = { total: page.totalSize, first: page.tasks.map((each) => each.id), rest: rest.tasks.map((each) => each.id), end: rest.nextPageToken };
  const short = await client.getTask({ tenant: '', id: said.at_once.id, historyLength: 0 });
  said.short = short.history.length;
}

main().catch((error) => { said.error = String(error.stack ?? error); }).finally(() => { console.log(JSON.stringify(said)); });
