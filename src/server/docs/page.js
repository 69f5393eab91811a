// Shows /openapi.json as a page. Everything from the document becomes text, never markup.
"use strict";

const METHODS = ["get", "post", "put", "patch", "delete"];
let api;

function make(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== undefined && child !== null && child !== ""));
  return node;
}

function follow(node) {
  for (let i = 0; node && node.$ref && i < 8; ++i) {
    node = node.$ref.slice(2).split("/").reduce((at, part) => at[part.replaceAll("~1", "/").replaceAll("~0", "~")], api);
  }
  return node || {};
}

// The little markup that descriptions use: paragraphs, lists of "- ", and `code`.
function inline(text) {
  return text.split("`").map((part, i) => (i % 2 ? make("code", {}, part) : part));
}

function prose(text) {
  const blocks = (text || "").trim().split(/\n\s*\n/).filter(Boolean);
  return blocks.map((block) => {
    if (!block.startsWith("- ")) return make("p", {}, ...inline(block.replaceAll("\n", " ")));
    const items = block.slice(2).split(/\n- /).map((item) => item.replace(/\s*\n\s*/g, " "));
    return make("ul", {}, ...items.map((item) => make("li", {}, ...inline(item))));
  });
}

function schemaLink(ref) {
  const name = ref.split("/").pop();
  return make("a", {href: "#schema-" + name}, name);
}

// A schema in one line: "string (date-time)", "array of Sandbox", "map of string".
function typeOf(schema) {
  if (!schema) return ["any"];
  if (schema.$ref) return [schemaLink(schema.$ref)];
  if (schema.const !== undefined) return [make("code", {}, JSON.stringify(schema.const))];
  for (const [key, word] of [["oneOf", " or "], ["anyOf", " or "], ["allOf", " and "]]) {
    if (schema[key]) return schema[key].flatMap((each, i) => (i ? [word, ...typeOf(each)] : typeOf(each)));
  }
  const types = [].concat(schema.type || (schema.properties ? "object" : "any"));
  const out = types.flatMap((type, i) => {
    const lead = i ? [" or "] : [];
    if (type === "array") return [...lead, "array of ", ...typeOf(schema.items)];
    if (type === "object" && typeof schema.additionalProperties === "object" && !schema.properties) {
      return [...lead, "map of ", ...typeOf(schema.additionalProperties)];
    }
    return [...lead, type];
  });
  if (schema.format) out.push(` (${schema.format})`);
  if (schema.enum) out.push(": ", ...schema.enum.flatMap((v, i) => [i ? " " : "", make("code", {}, String(v))]));
  const limits = [["minimum", "≥ "], ["maximum", "≤ "], ["minLength", "length ≥ "], ["maxLength", "length ≤ "],
    ["minItems", "items ≥ "], ["maxItems", "items ≤ "], ["default", "default "], ["pattern", "matches "]]
    .filter(([key]) => schema[key] !== undefined).map(([key, word]) => word + String(schema[key]));
  if (limits.length) out.push(make("span", {class: "faint"}, "  " + limits.join(", ")));
  return out;
}

// The fields of an object, those of objects inside it below them; named schemas are links and end the descent.
function fields(schema, depth = 0) {
  if (!schema || schema.$ref || depth > 6) return undefined;
  const parts = schema.allOf || schema.oneOf || schema.anyOf;
  if (parts) {
    const lists = parts.map((part) => fields(part, depth + 1)).filter(Boolean);
    return lists.length ? make("div", {}, ...lists) : undefined;
  }
  if (schema.type === "array") return fields(schema.items, depth + 1);
  if (!schema.properties) {
    return typeof schema.additionalProperties === "object" ? fields(schema.additionalProperties, depth + 1) : undefined;
  }
  const required = new Set(schema.required || []);
  return make("ul", {class: "fields"}, ...Object.entries(schema.properties).map(([name, field]) =>
    make("li", {}, make("code", {class: "name"}, name), " ", ...typeOf(field), " ",
      required.has(name) ? make("span", {class: "must"}, "required") : "",
      ...prose(field.description), fields(field, depth + 1))));
}

function example(media) {
  const values = Object.entries(media.examples || (media.example === undefined ? {} : {"": {value: media.example}}));
  return values.map(([name, each]) => {
    const value = follow(each).value;
    const label = [name, each.summary].filter(Boolean).join(": ");
    return make("div", {}, label && make("span", {class: "faint"}, label),
      make("pre", {}, typeof value === "string" ? value : JSON.stringify(value, null, 2)));
  });
}

function content(map) {
  return Object.entries(map || {}).flatMap(([type, media]) => {
    const events = media["x-item-schema"];
    return [make("p", {}, make("code", {}, type), " ", ...typeOf(events || media.schema), events ? " per event" : ""),
      fields(events || media.schema), ...example(media)];
  });
}

function parameterTable(parameters) {
  if (!parameters.length) return [];
  const rows = parameters.map((p) => make("tr", {},
    make("td", {}, make("code", {class: "name"}, p.name), p.required ? make("span", {class: "must"}, " required") : ""),
    make("td", {}, p.in), make("td", {}, ...typeOf(p.schema)), make("td", {}, ...prose(p.description))));
  return [make("h4", {}, "Parameters"), make("table", {}, make("thead", {}, make("tr", {},
    ...["Name", "In", "Type", "Description"].map((title) => make("th", {}, title)))), make("tbody", {}, ...rows))];
}

function quote(text) { return "'" + text.replaceAll("'", "'\\''") + "'"; }

function curl(op) {
  const base = (op.item.servers || op.operation.servers || api.servers)[0].url.replace(/\/$/, "");
  const path = op.path.replace(/\{(\w+)\}/g, (whole, name) => {
    const found = op.parameters.find((p) => p.in === "path" && p.name === name);
    return found && found.example !== undefined ? encodeURI(String(found.example)) : whole;
  });
  const lines = [`curl${op.method === "get" ? "" : " -X " + op.method.toUpperCase()} ${quote(location.origin + base + path)}`];
  if ((op.operation.security || api.security || []).length) lines.push('-H "OPEN-SANDBOX-API-KEY: $KEY"');
  const body = op.operation.requestBody && follow(op.operation.requestBody).content;
  const type = body && Object.keys(body)[0];
  if (type && type.includes("json")) {
    const media = body[type];
    const first = media.example !== undefined ? media.example : Object.values(media.examples || {}).map((e) => follow(e).value)[0];
    lines.push(`-H ${quote("Content-Type: " + type)}`, `-d ${quote(JSON.stringify(first === undefined ? {} : first))}`);
  }
  return lines.join(" \\\n  ");
}

function operationBody(op) {
  const {operation} = op;
  const body = operation.requestBody && follow(operation.requestBody);
  const out = [...prose(op.item.description), ...prose(operation.description), ...parameterTable(op.parameters)];
  if (body) out.push(make("h4", {}, "Request body", body.required ? make("span", {class: "must"}, " required") : ""), ...content(body.content));
  out.push(make("h4", {}, "Responses"));
  for (const [status, given] of Object.entries(operation.responses)) {
    const response = follow(given);
    const headers = Object.keys(response.headers || {});
    out.push(make("details", {open: status.startsWith("2")},
      make("summary", {}, make("strong", {}, status), " ", ...inline((response.description || "").replaceAll("\n", " "))),
      headers.length ? make("p", {class: "faint"}, "Headers: " + headers.join(", ")) : "", ...content(response.content)));
  }
  out.push(make("h4", {}, "From a shell"), make("pre", {}, curl(op)));
  return out;
}

// A folded entry whose inside is made when it is first opened.
function entry(id, heading, text, fill) {
  const node = make("details", {class: "entry", id}, make("summary", {}, ...heading));
  node.search = text.toLowerCase();
  node.addEventListener("toggle", () => {
    if (node.open && node.children.length === 1) node.append(make("div", {class: "body"}, ...fill().filter(Boolean)));
  });
  return node;
}

function operations() {
  const out = [];
  for (const [path, item] of Object.entries(api.paths)) {
    for (const method of METHODS.filter((m) => item[m])) {
      const operation = item[method];
      const parameters = [...(item.parameters || []), ...(operation.parameters || [])].map(follow);
      out.push({path, item, method, operation, parameters, id: "op-" + operation.operationId, tag: (operation.tags || ["Other"])[0]});
    }
  }
  return out;
}

function show() {
  const main = document.getElementById("main"), contents = document.getElementById("contents");
  main.replaceChildren(make("div", {id: "about"}, make("p", {class: "faint"}, `${api.info.title} ${api.info.version}`), ...prose(api.info.description)));
  const groups = [];
  const section = (title, description, entries) => {
    const heading = make("h2", {}, title), text = make("div", {class: "faint"}, ...prose(description)), label = make("h2", {}, title);
    main.append(heading, text, ...entries.map((e) => e.node));
    contents.append(label, ...entries.map((e) => e.link));
    groups.push({parts: [heading, text, label], entries});
  };
  const all = operations();
  for (const tag of api.tags) {
    section(tag.name, tag.description, all.filter((op) => op.tag === tag.name).map((op) => {
      const method = () => make("span", {class: "method " + op.method}, op.method.toUpperCase());
      const closed = op.operation.security && !op.operation.security.length ? make("span", {class: "tag"}, "no key") : "";
      const text = [op.method, op.path, op.operation.operationId, op.operation.summary, op.operation.description,
        ...op.parameters.map((p) => p.name)].join(" ");
      return {
        node: entry(op.id, [method(), make("span", {class: "path"}, op.path), make("span", {class: "faint"}, op.operation.summary), closed], text, () => operationBody(op)),
        link: make("a", {href: "#" + op.id, title: op.path}, method(), make("span", {}, op.operation.summary)),
      };
    }));
  }
  section("Schemas", "The shapes that the operations above speak of.", Object.entries(api.components.schemas).map(([name, schema]) => ({
    node: entry("schema-" + name, [make("span", {class: "path"}, name), make("span", {class: "faint"}, ...inline((schema.description || "").split("\n")[0]))],
      [name, schema.description, ...Object.keys(schema.properties || {})].join(" "),
      () => [...prose(schema.description), make("p", {}, ...typeOf(schema)), fields(schema)]),
    link: make("a", {href: "#schema-" + name}, name),
  })));
  const nothing = make("p", {hidden: true, role: "status"}, "Nothing matches.");
  main.append(nothing);

  const search = document.getElementById("search");
  const filter = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let found = 0;
    for (const group of groups) {
      let here = 0;
      for (const {node, link} of group.entries) {
        const match = words.every((word) => node.search.includes(word));
        node.hidden = link.hidden = !match;
        here += match;
      }
      for (const part of group.parts) part.hidden = !here;
      found += here;
    }
    document.getElementById("about").hidden = words.length > 0;
    nothing.hidden = found > 0;
  };
  search.addEventListener("input", filter);
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== search) {
      event.preventDefault();
      search.focus();
    }
  });
  const open = () => {
    const node = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!node || node.tagName !== "DETAILS") return;
    if (node.hidden) {
      search.value = "";
      filter();
    }
    node.open = true;
    node.scrollIntoView();
  };
  window.addEventListener("hashchange", open);
  // A link to where we already are opens its entry again.
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    if (link && link.getAttribute("href") === location.hash) open();
  });
  open();
}

fetch("/openapi.json").then((response) => {
  if (!response.ok) throw new Error(`the server answered ${response.status}`);
  return response.json();
}).then((document_) => {
  api = document_;
  show();
}).catch((error) => {
  document.getElementById("main").replaceChildren(make("p", {role: "alert"}, `The API description could not be shown: ${error.message}`));
});
