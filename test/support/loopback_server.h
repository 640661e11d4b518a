/* loopback_server.h: an HTTP server on 127.0.0.1, in threads of the test, that answers as its path says, and badly if
 * the path says so:
 *
 *   /bytes/N, /chunked/N     N bytes, each the low byte of its position times 7
 *   /status/S/N              N bytes with status S
 *   /cut/N/M, /cutchunked/M  promises N bytes, sends M and closes
 *   /reset, /resetin/M       resets the connection, at once or after M bytes
 *   /silent, /stall/N/M      says nothing; promises N bytes, sends M and says nothing more
 *   /slow/N/MS               N bytes, one each MS milliseconds
 *   /endless/S               a body without an end, with status S
 *   /heads, /garbage         headers without an end; no HTTP
 *   /interim/N               100 Continue first, then N bytes
 *   /echo                    the body of the request
 *   /head                    the head of the request
 *   /last                    16 bytes; closes the connection without having said so
 *   /refuse                  403 before the body was read; closes
 *   /range/A/B/N             206 with bytes A to B of N, with an ETag and dates
 */
#ifndef LOOPBACK_SERVER_H
#define LOOPBACK_SERVER_H
#ifndef _GNU_SOURCE
#error "define _GNU_SOURCE before the first include: POLLRDHUP, strcasestr"
#endif

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef POLLRDHUP
#define POLLRDHUP POLLIN
#endif
#ifndef SOCK_CLOEXEC
#define SOCK_CLOEXEC 0
#endif
#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

typedef struct loopback_server {
  int listener;
  uint16_t port;
  pthread_t thread;
  _Atomic bool stop;
  _Atomic uint32_t connections, open, requests; /* accepted so far; open now; requests so far */
} loopback_server;

typedef struct loopback_client {
  loopback_server *server;
  int descriptor;
} loopback_client;

static bool loopback_send(int descriptor, const void *bytes, size_t size) {
  const char *at = bytes;
  while (size > 0) {
    ssize_t sent = send(descriptor, at, size, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    at += sent;
    size -= (size_t)sent;
  }
  return true;
}

static bool loopback_text(int descriptor, const char *text) { return loopback_send(descriptor, text, strlen(text)); }

/* Sends bytes of the pattern, from a position on. */
static bool loopback_pattern(int descriptor, uint64_t from, uint64_t count) {
  uint8_t block[16384];
  while (count > 0) {
    const size_t size = count < sizeof block ? (size_t)count : sizeof block;
    for (size_t i = 0; i < size; i++) block[i] = (uint8_t)((from + i) * 7);
    if (!loopback_send(descriptor, block, size)) return false;
    from += size;
    count -= size;
  }
  return true;
}

static bool loopback_begin(int descriptor, unsigned status, uint64_t size) {
  char head[200];
  snprintf(head, sizeof head, "HTTP/1.1 %u Some Words\r\nContent-Length: %llu\r\nContent-Type: text/plain\r\n\r\n",
           status, (unsigned long long)size);
  return loopback_text(descriptor, head);
}

static bool loopback_chunked(int descriptor, uint64_t count, bool ends) {
  char size[40];
  if (!loopback_text(descriptor, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")) return false;
  for (uint64_t at = 0; at < count;) {
    const uint64_t part = count - at < 5000 ? count - at : 5000;
    snprintf(size, sizeof size, "%llx\r\n", (unsigned long long)part);
    if (!loopback_text(descriptor, size) || !loopback_pattern(descriptor, at, part)) return false;
    if (!loopback_text(descriptor, "\r\n")) return false;
    at += part;
  }
  return !ends || loopback_text(descriptor, "0\r\n\r\n");
}

/* Waits until the client closes, or the server is stopped. */
static void loopback_wait(const loopback_client *client, int ms) {
  struct pollfd seen = {client->descriptor, POLLRDHUP, 0};
  for (; ms > 0 && !client->server->stop; ms -= 20)
    if (poll(&seen, 1, ms < 20 ? ms : 20) > 0) return;
}

static void loopback_reset(int descriptor) {
  const struct linger now = {1, 0};
  setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

static bool loopback_slow(const loopback_client *client, uint64_t count, int ms) {
  if (!loopback_begin(client->descriptor, 200, count)) return false;
  for (uint64_t i = 0; i < count; i++) {
    loopback_wait(client, ms);
    if (client->server->stop || !loopback_pattern(client->descriptor, i, 1)) return false;
  }
  return true;
}

static bool loopback_endless(const loopback_client *client, unsigned status) {
  char head[100];
  snprintf(head, sizeof head, "HTTP/1.1 %u OK\r\nConnection: close\r\n\r\n", status);
  if (!loopback_text(client->descriptor, head)) return false;
  while (!client->server->stop && loopback_pattern(client->descriptor, 0, 16384)) {}
  return false;
}

static bool loopback_heads(const loopback_client *client) {
  if (!loopback_text(client->descriptor, "HTTP/1.1 200 OK\r\n")) return false;
  while (!client->server->stop && loopback_text(client->descriptor, "X-Endless: yes, it is and it remains so\r\n")) {}
  return false;
}

static bool loopback_range(int descriptor, uint64_t first, uint64_t last, uint64_t size) {
  char head[600];
  snprintf(
      head, sizeof head,
      "HTTP/1.1 206 Partial Content\r\ncontent-LENGTH:%llu\r\nContent-Range: bytes %llu-%llu/%llu\r\n"
      "ETag: \"0123abc-7\"\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nDate: Sun, 22 Nov 2026 10:20:30 GMT\r\n"
      "x-amz-request-id: 4442587FB7D0A2F9\r\nx-amz-bucket-region: eu-north-1\r\nRetry-After: 17\r\n\r\n",
      (unsigned long long)(last - first + 1), (unsigned long long)first, (unsigned long long)last,
      (unsigned long long)size);
  return loopback_text(descriptor, head) && loopback_pattern(descriptor, first, last - first + 1);
}

/* Reads a body of `size` bytes and, if `echo`, sends it back. */
static bool loopback_body(int descriptor, const char *have, size_t had, uint64_t size, bool echo) {
  char *body = malloc(size + 1);
  uint64_t at = had < size ? had : size;
  memcpy(body, have, at);
  while (at < size) {
    ssize_t got = recv(descriptor, body + at, size - at, 0);
    if (got <= 0) break;
    at += (uint64_t)got;
  }
  bool good = at == size;
  if (good && echo) good = loopback_begin(descriptor, 200, size) && loopback_send(descriptor, body, size);
  free(body);
  return good;
}

/* Answers one request. Returns whether the connection stays open. */
static bool loopback_answer(const loopback_client *client, const char *method, const char *path, const char *head) {
  const int d = client->descriptor;
  unsigned long long a = 0, b = 0, c = 0;
  if (strcmp(method, "HEAD") == 0) return loopback_begin(d, 200, 12345);
  if (sscanf(path, "/bytes/%llu", &a) == 1) return loopback_begin(d, 200, a) && loopback_pattern(d, 0, a);
  if (sscanf(path, "/chunked/%llu", &a) == 1) return loopback_chunked(d, a, true);
  if (sscanf(path, "/status/%llu/%llu", &a, &b) == 2)
    return loopback_begin(d, (unsigned)a, b) && loopback_pattern(d, 0, b);
  if (sscanf(path, "/cut/%llu/%llu", &a, &b) == 2)
    return loopback_begin(d, 200, a) && loopback_pattern(d, 0, b) && false;
  if (sscanf(path, "/cutchunked/%llu", &a) == 1) return loopback_chunked(d, a, false) && false;
  if (strncmp(path, "/reset", 6) == 0) {
    if (sscanf(path, "/resetin/%llu", &a) == 1 && loopback_begin(d, 200, 2 * a) && loopback_pattern(d, 0, a))
      usleep(50000);
    loopback_reset(d);
    return false;
  }
  if (strcmp(path, "/silent") == 0) return (loopback_wait(client, 20000), false);
  if (sscanf(path, "/stall/%llu/%llu", &a, &b) == 2) {
    if (loopback_begin(d, 200, a) && loopback_pattern(d, 0, b)) loopback_wait(client, 20000);
    return false;
  }
  if (sscanf(path, "/slow/%llu/%llu", &a, &b) == 2) return loopback_slow(client, a, (int)b);
  if (sscanf(path, "/endless/%llu", &a) == 1) return loopback_endless(client, (unsigned)a);
  if (strcmp(path, "/heads") == 0) return loopback_heads(client);
  if (strcmp(path, "/garbage") == 0) return loopback_text(d, "220 mail.example.com ESMTP\r\n\r\n") && false;
  if (sscanf(path, "/interim/%llu", &a) == 1)
    return loopback_text(d, "HTTP/1.1 100 Continue\r\nETag: wrong\r\n\r\n") && loopback_begin(d, 200, a) &&
           loopback_pattern(d, 0, a);
  if (strcmp(path, "/head") == 0) return loopback_begin(d, 200, strlen(head)) && loopback_text(d, head);
  if (strcmp(path, "/last") == 0) return loopback_begin(d, 200, 16) && loopback_pattern(d, 0, 16) && false;
  if (sscanf(path, "/range/%llu/%llu/%llu", &a, &b, &c) == 3) return loopback_range(d, a, b, c);
  return loopback_begin(d, 404, 0);
}

/* Reads the head of a request, at least. Returns the number of bytes in `text`; 0 when the client has gone. */
static size_t loopback_read_head(const loopback_client *client, char *text, size_t room) {
  size_t size = 0;
  text[0] = 0;
  while (!strstr(text, "\r\n\r\n") && size + 1 < room && !client->server->stop) {
    struct pollfd seen = {client->descriptor, POLLIN, 0};
    if (poll(&seen, 1, 50) <= 0) continue;
    ssize_t got = recv(client->descriptor, text + size, room - size - 1, 0);
    if (got <= 0) return 0;
    size += (size_t)got;
    text[size] = 0;
  }
  return client->server->stop ? 0 : size;
}

static void *loopback_serve(void *argument) {
  loopback_client *client = argument;
  static const size_t room = 65536;
  char *text = malloc(room), method[20], path[2000];
  const int d = client->descriptor, on = 1;
  setsockopt(d, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  for (size_t size; (size = loopback_read_head(client, text, room)) > 0;) {
    unsigned long long length = 0;
    char *end = strstr(text, "\r\n\r\n") + 4, *header = strcasestr(text, "content-length:");
    if (header && header < end) length = strtoull(header + 15, NULL, 10);
    client->server->requests++;
    if (sscanf(text, "%19s %1999s", method, path) != 2) break;
    char *name = strncmp(path, "http://", 7) == 0 ? strchr(path + 7, '/') : path; /* as a proxy is asked */
    if (strcmp(name, "/refuse") == 0) {
      loopback_begin(d, 403, 0);
      break;
    }
    if (length > 0 && strcmp(name, "/silent") != 0 &&
        !loopback_body(d, end, size - (size_t)(end - text), length, strcmp(name, "/echo") == 0))
      break;
    if (length > 0 && strcmp(name, "/echo") == 0) continue;
    *end = 0;
    if (!loopback_answer(client, method, name, text)) break;
  }
  close(d);
  free(text);
  client->server->open--;
  free(client);
  return NULL;
}

static void *loopback_accept(void *argument) {
  loopback_server *server = argument;
  while (!server->stop) {
    struct pollfd seen = {server->listener, POLLIN, 0};
    if (poll(&seen, 1, 20) <= 0) continue;
    const int descriptor = accept(server->listener, NULL, NULL);
    pthread_t thread;
    if (descriptor < 0) continue;
    loopback_client *client = malloc(sizeof *client);
    *client = (loopback_client){server, descriptor};
    server->connections++;
    server->open++;
    if (pthread_create(&thread, NULL, loopback_serve, client) == 0) {
      pthread_detach(thread);
    } else {
      server->open--;
      close(descriptor);
      free(client);
    }
  }
  return NULL;
}

/* Starts the server on a free port. Returns false if it cannot. */
static bool loopback_start(loopback_server *server) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  *server = (loopback_server){.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  if (server->listener < 0 || bind(server->listener, (struct sockaddr *)&address, size) != 0) return false;
  if (listen(server->listener, 256) != 0 || getsockname(server->listener, (struct sockaddr *)&address, &size) != 0)
    return false;
  server->port = ntohs(address.sin_port);
  return pthread_create(&server->thread, NULL, loopback_accept, server) == 0;
}

static void loopback_stop(loopback_server *server) {
  server->stop = true;
  pthread_join(server->thread, NULL);
  close(server->listener);
  while (server->open > 0) usleep(1000);
}

#endif
