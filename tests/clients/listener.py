# Runs inside a sandbox: a web server on port 8000 that says who was asked for what. The first process returns when it
# listens.
import http.server
import os


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = f"{os.environ.get('GREETING', '')} {self.path}\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer.request_queue_size = 128
server = http.server.ThreadingHTTPServer(("0.0.0.0", 8000), Handler)
if os.fork() == 0:
    os.setsid()
    nothing = os.open("/dev/null", os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    server.serve_forever()
os._exit(0)
