"""tls_server.py: an HTTPS server on 127.0.0.1 for the unit tests, with a certificate for "localhost" that it makes itself.

usage: tls_server.py DIRECTORY

Writes DIRECTORY/cert.pem, prints its port, and answers GET /bytes/N until its standard input ends. Exits with 77 if there is no
openssl program to make the certificate."""
import http.server
import os
import ssl
import subprocess
import sys
import threading


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        size = int(self.path.rsplit("/", 1)[1])
        self.send_response(200)
        self.send_header("Content-Length", str(size))
        self.end_headers()
        self.wfile.write(bytes(i * 7 & 255 for i in range(size)))

    def log_message(self, *arguments):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request, address):
        pass  # clients that do not trust the certificate


def main():
    folder = sys.argv[1]
    key, cert = os.path.join(folder, "key.pem"), os.path.join(folder, "cert.pem")
    try:
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key,
                        "-out", cert, "-days", "2", "-subj", "/CN=tests", "-addext", "subjectAltName=DNS:localhost"],
                       check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        print("SKIPPED: tls_server.py found no openssl program to make its certificate", file=sys.stderr)
        sys.exit(77)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    server = Server(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()


main()
