// A web server with HTTP/2 and HTTP/1.1: node web_host.mjs ADDRESS CHAIN KEY. One line of JSON per request.
import fs from "node:fs";
import http2 from "node:http2";

const [address, chain, key] = process.argv.slice(2);
const server = http2.createSecureServer({ cert: fs.readFileSync(chain), key: fs.readFileSync(key), allowHTTP1: true });
server.on("request", (request, response) => {
  let size = 0;
  request.on("data", (piece) => (size += piece.length));
  request.on("end", () => {
    const { method, url: path, headers, httpVersion: version } = request;
    console.log(JSON.stringify({ version, method, path, size, authorization: headers.authorization ?? null }));
    response.setHeader("x-echo", headers.authorization ?? "");
    if (version === "2.0") response.addTrailers({ "x-trailer": headers.authorization ?? "" });
    response.end(path.startsWith("/bytes/") ? "x".repeat(Number(path.slice(7))) : `here is ${path}`);
  });
});
server.listen(443, address, () => console.log("listening"));
