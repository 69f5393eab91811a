// The JavaScript and TypeScript kernel of execd, for Node.js 18 and newer: reads "run N" from descriptor 3, takes the
// code from the file on descriptor 4, and answers with frames (driver_protocol.h). V8's own REPL mode, reached through
// the inspector, gives top-level await and lets later cells declare a name again. Answers come on descriptor 6.
(function () {
'use strict';
const fs = require('fs');
const inspector = require('inspector');
const Module = require('module');
const net = require('net');
const path = require('path');
const url = require('url');
const util = require('util');
const {promiseHooks} = require('v8');
const vm = require('vm');

const SOCKET = 3, CODE = 4, ANSWERS = 6, LATE_MS = 1000, MAX_TEXT = (1 << 19) - 64;
const typescript = process.argv.includes('typescript');
let run = 0, busy = false, value, transpile = (code) => code;

const {wait} = Atomics, never = new Int32Array(new SharedArrayBuffer(4)), sleep = (ms) => wait(never, 0, 0, ms);

function writeAll(fd, data) {
  for (let at = 0; at < data.length;) {
    try {
      at += fs.writeSync(fd, data, at);
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error;
      sleep(1);  // execd is busy with earlier frames
    }
  }
}

// Half a surrogate pair is no text that JSON can carry.
const wellFormed = (key, text) =>
    typeof text === 'string' && /[\ud800-\udfff]/.test(text) ? Buffer.from(text).toString() : text;

function send(message) {
  const body = Buffer.from(JSON.stringify(message, wellFormed));
  writeAll(SOCKET, Buffer.concat([Buffer.from(body.length + '\n'), body]));
}

const cut = (text) => text.length <= MAX_TEXT ? text : `${text.slice(0, MAX_TEXT)}... [${text.length} characters, cut]`;

function describe(thrown) {
  if (!util.types.isNativeError(thrown)) return {ename: 'Error', evalue: cut(util.inspect(thrown)), traceback: []};
  const lines = String(thrown.stack || thrown).split('\n');
  const own = lines.findIndex((line) => /node:inspector|opensandbox-kernel/.test(line));
  return {ename: String(thrown.name), evalue: cut(String(thrown.message)),
          traceback: (own < 0 ? lines : lines.slice(0, own)).slice(0, 500).map(cut)};
}

// ---- modules: import statements and import() become calls, because scripts have neither.

const cellRequire = () => Module.createRequire(path.join(process.cwd(), 'cell.js'));

async function importModule(name) {
  name = String(name);
  if (/^(node:|data:|file:|https?:)/.test(name) || Module.builtinModules.includes(name)) return import(name);
  if (/^(\.\.?)?\//.test(name)) return import(url.pathToFileURL(path.resolve(name)).href);
  try {
    return await import(url.pathToFileURL(cellRequire().resolve(name)).href);
  } catch (error) {
    if (error.code !== 'ERR_PACKAGE_PATH_NOT_EXPORTED') throw error;
    return import(name);
  }
}

const IMPORT = /^import\s*(?:([\w$*\s{},]+?)\s*from\s*)?(['"])([^'"\n]+)\2(?:\s*(?:with|assert)\s*\{[^}]*\})?\s*;?/;

function importCall(clause, name) {
  const from = `await importModule(${JSON.stringify(name)})`;
  if (!clause) return `${from};`;
  const star = /^(?:([\w$]+)\s*,\s*)?\*\s*as\s+([\w$]+)$/.exec(clause);
  if (star) return `const ${star[2]} = ${from};` + (star[1] ? ` const ${star[1]} = ${star[2]}.default;` : '');
  const named = /^(?:([\w$]+)\s*,?\s*)?(?:\{([^}]*)\})?$/.exec(clause.trim());
  if (!named) return null;
  const parts = named[1] ? [`default: ${named[1]}`] : [];
  for (const part of (named[2] || '').split(',').map((each) => each.trim()).filter(Boolean)) {
    parts.push(part.replace(/\s+as\s+/, ': '));
  }
  return `const {${parts.join(', ')}} = ${from};`;
}

// Goes through the code token by token, so that strings, comments, templates and regular expressions stay as they are.
function rewriteImports(code) {
  if (!/\b(import|export)\b/.test(code)) return code;
  let out = '', at = 0, depth = 0, last = '';
  const templates = [];  // brace depths at which a template goes on
  const copy = (length) => { out += code.substr(at, length); at += length; };
  const template = () => {  // up to its end or its next ${
    while (at < code.length) {
      if (code[at] === '\\') copy(2);
      else if (code[at] === '`') return copy(1);
      else if (code.startsWith('${', at)) { copy(2); templates.push(depth++); return; }
      else copy(1);
    }
  };
  while (at < code.length) {
    const rest = code[at], two = code.substr(at, 2);
    if (two === '//') copy((code.indexOf('\n', at) + 1 || code.length + 1) - 1 - at || 2);
    else if (two === '/*') copy((code.indexOf('*/', at + 2) + 1 || code.length) + 1 - at);
    else if (rest === '"' || rest === "'") {
      let end = at + 1;
      while (end < code.length && code[end] !== rest && code[end] !== '\n') end += code[end] === '\\' ? 2 : 1;
      copy(end + 1 - at); last = '"';
    } else if (rest === '`') { copy(1); template(); last = '"'; }
    else if (rest === '/' && !/[\w$)\]}"]/.test(last)) {
      let end = at + 1, inClass = false;
      while (end < code.length && code[end] !== '\n' && (inClass || code[end] !== '/')) {
        if (code[end] === '[') inClass = true;
        else if (code[end] === ']') inClass = false;
        end += code[end] === '\\' ? 2 : 1;
      }
      copy(end + 1 - at); last = '"';
    } else if (/[A-Za-z_$]/.test(rest)) {
      const word = /^[\w$]+/.exec(code.slice(at, at + 256))[0];
      if (word === 'import' && last !== '.' && /^import\s*\(/.test(code.slice(at, at + 64))) {
        out += 'importModule';
        at += 6;
      } else if (word === 'import' && depth === 0 && last !== '.') {
        const found = IMPORT.exec(code.slice(at));
        const call = found && importCall(found[1] && found[1].trim(), found[3]);
        if (call) { out += call; at += found[0].length; } else copy(6);
      } else if (word === 'export' && depth === 0 && last !== '.') {
        at += /^export\s*(\{\s*\}\s*;?|default\s+)?/.exec(code.slice(at))[0].length;
      } else copy(word.length);
      last = 'a';
    } else {
      if (rest === '{' || rest === '(' || rest === '[') ++depth;
      if (rest === ')' || rest === ']') --depth;
      if (rest === '}') {
        --depth;
        if (templates.length && templates[templates.length - 1] === depth) {
          templates.pop();
          copy(1);
          template();
          last = '"';
          continue;
        }
      }
      if (!/\s/.test(rest)) last = rest;
      copy(1);
    }
  }
  return out;
}

// ---- TypeScript

function findTypeScript() {
  if (typeof Module.stripTypeScriptTypes === 'function') {
    const strip = (code) => Module.stripTypeScriptTypes(code, {mode: 'transform'}), {emitWarning} = process;
    process.emitWarning = () => {};  // once: that this is experimental
    strip('');
    process.emitWarning = emitWarning;
    return strip;
  }
  const places = [process.cwd(), path.join(path.dirname(process.execPath), '..', 'lib'), '/usr/local/lib', '/usr/lib',
                  '/usr/share/nodejs', ...(process.env.NODE_PATH || '').split(path.delimiter).filter(Boolean)];
  for (const place of places) {
    let ts;
    try {
      ts = require(require.resolve('typescript', {paths: [place, path.join(place, 'node_modules')]}));
    } catch {
      continue;
    }
    const compilerOptions = {target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext, verbatimModuleSyntax: true};
    return (code) => {
      const {outputText, diagnostics} = ts.transpileModule(code, {compilerOptions, reportDiagnostics: true});
      if (diagnostics.length) throw new SyntaxError(ts.flattenDiagnosticMessageText(diagnostics[0].messageText, '\n'));
      return outputText;
    };
  }
  process.stderr.write('no way to run TypeScript: install Node.js 22.13 or newer, or the npm package typescript 5.x ' +
                       '(npm install -g typescript) in the image\n');
  process.exit(1);
}

// ---- running code

let session;
function connect() {
  session = new inspector.Session();
  session.connect();
}
connect();
let evaluate;
Object.defineProperty(globalThis, '__opensandbox', {value: {take(taken) { value = taken; }, evaluate() { evaluate(); }}});

// The live value behind what the inspector says about it.
function take(remote, done) {
  if (remote.type === 'undefined') return done(undefined);
  if (!remote.objectId) {
    const odd = remote.unserializableValue;
    if (odd === undefined) return done(remote.value);
    return done(odd.endsWith('n') ? BigInt(odd.slice(0, -1)) : Number(odd));
  }
  session.post('Runtime.callFunctionOn', {
    functionDeclaration: 'function (taken) { __opensandbox.take(taken); }',
    objectId: remote.objectId, arguments: [{objectId: remote.objectId}]}, () => {
      session.post('Runtime.releaseObject', {objectId: remote.objectId});
      const taken = value;
      value = undefined;
      done(taken);
    });
}

function finish(number, failure) {
  if (!busy || number !== run) return;
  busy = false;
  awaited = undefined;
  leave();
  if (failure) send({type: 'error', run: number, ...failure});
  send({type: 'done', run: number});
}

// A session reports when the promise of a cell is collected as garbage; from version 22 on Node.js does not survive that. So
// the promise is kept as long as the cell runs, and a session that waited for an interrupted one is closed.
let awaited;
function interrupted(number) {
  ++interrupts;
  if (!busy) return;
  finish(number, {ename: 'KeyboardInterrupt', evalue: 'the code was interrupted', traceback: []});
  session.disconnect();
  connect();
}

function fail(number, thrown) {
  let failure;
  try {
    failure = describe(thrown);
  } catch {
    failure = {ename: 'Error', evalue: 'an error that cannot be shown', traceback: []};
  }
  finish(number, failure);
}

function evaluated(number, error, answer) {
  if (error) return fail(number, new Error(error.message));
  if (answer.exceptionDetails) {
    return take(answer.exceptionDetails.exception, (thrown) => fail(number, thrown));
  }
  take(answer.result, (result) => {
    try {
      if (result !== undefined && busy && number === run) {
        globalThis._ = result;
        send({type: 'result', run: number, data: {'text/plain': cut(util.inspect(result))}});
      }
      finish(number);
    } catch (thrown) {
      fail(number, thrown);
    }
  });
}

// The directory and the variables of one run; what was there before comes back after it.
let leave = () => {};
function enter(words) {
  const before = process.cwd(), variables = words.slice(1).map((word) => {
    const at = word.indexOf('=');
    return [word.slice(0, at), word.slice(at + 1)];
  });
  const old = variables.map(([name]) => [name, process.env[name]]);
  for (const [name, value] of variables) process.env[name] = value;
  if (words[0]) process.chdir(words[0]);
  leave = () => {
    leave = () => {};
    for (const [name, value] of old) {
      if (value === undefined) delete process.env[name]; else process.env[name] = value;
    }
    try { process.chdir(before); } catch { /* it was removed */ }
  };
}

// Until the next 'started' no interrupt comes. Node.js is about to change its handlers of the signal: one that comes meanwhile
// would end the process, or the next run. One that was sent before is awaited here, and ends this function.
let answers = '';
function refuseInterrupts() {
  send({type: 'deaf', run});
  const part = Buffer.alloc(64);
  let answer;
  while (!(answer = new RegExp(`deaf ${run} (\\d+)\n$`).exec(answers))) {
    try {
      answers = answers.slice(-64) + part.latin1Slice(0, fs.readSync(ANSWERS, part));
    } catch (error) {
      if (error.code !== 'EINTR') throw error;
    }
  }
  if (Number(answer[1]) > interrupts) sleep(LATE_MS);
}

// Runs `what` so that SIGINT ends it, even if it never lets go of the thread. False: it was ended.
const breakable = new vm.Script('__opensandbox.evaluate()', {filename: 'opensandbox-kernel'});
function untilInterrupted(what) {
  evaluate = what;
  try {
    breakable.runInThisContext({breakOnSigint: true});
    return true;
  } catch (error) {
    if (error.code !== 'ERR_SCRIPT_EXECUTION_INTERRUPTED') throw error;
    return false;
  }
}

function runCell(number, head) {
  run = number;
  busy = true;
  const size = fs.fstatSync(CODE).size, data = Buffer.alloc(size);
  for (let at = 0; at < size;) {
    const count = fs.readSync(CODE, data, at, size - at, at);
    if (count === 0) break;
    at += count;
  }
  try {
    const name = `cell-${number}.${typescript ? 'ts' : 'js'}`;
    if (head) enter(data.toString('utf8', 0, head).split('\0').slice(0, -1));
    const expression = `${rewriteImports(transpile(data.toString('utf8', head)))}\n//# sourceURL=${name}`;
    let within = true, outcome;  // an answer is not sent from where an interrupt could cut the frame
    // The last promise that something is done with is that of the cell.
    const stop = promiseHooks.onInit((promise, parent) => { if (parent) awaited = parent; });
    const ended = untilInterrupted(() => {
      send({type: 'started', run: number});
      session.post('Runtime.evaluate', {expression, replMode: true},
                   (...answer) => within ? outcome = answer : evaluated(number, ...answer));
      refuseInterrupts();
    });
    within = false;
    stop();
    if (!ended) interrupted(number);
    else if (outcome) evaluated(number, ...outcome);
    else send({type: 'started', run: number});
  } catch (thrown) {
    fail(number, thrown);
  }
}

// Reaches code that waits. Code that keeps the thread busy after an `await`, or in a callback, is killed by execd.
let interrupts = 0, next = () => {};
process.on('SIGINT', () => {
  interrupted(run);
  next();
});

// `sent`: how many interrupts were sent for earlier cells. One that the code has kept for itself is not waited for longer. One
// that Node.js has kept, because the cell had just ended, ends the next code that an interrupt may end: that is no cell.
function begin(number, head, sent) {
  if (interrupts >= sent) return runCell(number, head);
  const late = setTimeout(() => {
    untilInterrupted(() => sleep(LATE_MS / 2));
    interrupts = sent;
    next();
  }, LATE_MS / 2);
  next = () => {
    if (interrupts < sent) return;
    clearTimeout(late);
    next = () => {};
    runCell(number, head);
  };
}
process.on('uncaughtException', (error) => console.error('Uncaught', error));
process.on('unhandledRejection', (error) => console.error('Uncaught (in promise)', error));

// Output is written before the frame about its end, and programs that share the pipes expect them so. It goes past the
// state of the streams: an interrupt in the middle of that would keep them from writing for ever.
for (const stream of [process.stdout, process.stderr]) {
  if (stream._handle) stream._handle.setBlocking(true);
  stream.write = (chunk, encoding, done = encoding) => {
    let failure = null;
    try {
      const data = chunk instanceof Uint8Array ? chunk : Buffer.from(chunk, typeof encoding === 'string' ? encoding : 'utf8');
      writeAll(stream.fd, data);
    } catch (error) {
      if (error.errno === undefined) throw error;
      failure = error;
    }
    if (typeof done === 'function') process.nextTick(done, failure);
    return true;
  };
}

if (typescript) transpile = findTypeScript();
Object.defineProperty(globalThis, 'require', {value: cellRequire(), writable: true, configurable: true});
Object.defineProperty(globalThis, 'importModule', {value: importModule, writable: true, configurable: true});
Object.defineProperty(globalThis, 'module', {value: {exports: {}}, writable: true, configurable: true});
Object.defineProperty(globalThis, 'exports', {value: globalThis.module.exports, writable: true, configurable: true});
process.argv.length = 1;

let received = '';
const socket = new net.Socket({fd: SOCKET, readable: true, writable: false});
socket.setEncoding('latin1');
socket.on('data', (text) => {
  received += text;
  for (let end; (end = received.indexOf('\n')) >= 0;) {
    const words = received.slice(0, end).split(' ');
    received = received.slice(end + 1);
    if (words[0] === 'run') begin(...words.slice(1).map(Number));
  }
});
socket.on('end', () => process.exit(0));
socket.on('error', () => process.exit(0));
send({type: 'ready'});
})();
//# sourceURL=opensandbox-kernel
