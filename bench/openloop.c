/* Open-loop HTTP load: sends RATE requests/s over POOL kept-alive connections, whether or not they are answered.

   openloop PORT POOL RATE SECONDS FILE...

   Each FILE holds one whole request; they are sent in turn. RATE 0 closes the loop: every connection sends the next
   request as soon as it has the response. A latency counts from when the request was due, the wait for a free
   connection included. Prints one line of JSON. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#define LONGEST (256 * 1024)
#define HALVES 64 /* half seconds of which the worst latency is kept */

struct connection {
    int fd, is_busy, status;
    size_t received, length;
    double due;
    char *response;
};

static int port, poll_fd;
static char **requests;
static size_t *lengths, count, next;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void check(int failed, const char *what) {
    if (failed) {
        perror(what);
        exit(1);
    }
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void open_connection(struct connection *c) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    int on = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    check(c->fd < 0, "socket");
    check(connect(c->fd, (void *)&address, sizeof address) < 0, "connect");
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
    check(epoll_ctl(poll_fd, EPOLL_CTL_ADD, c->fd, &event) < 0, "epoll_ctl");
    c->is_busy = 0;
}

static void send_next(struct connection *c, double due) {
    size_t i = next++ % count;
    c->due = due;
    c->is_busy = 1;
    c->received = c->length = 0;
    /* A connection that the server has closed is noticed by the next read. */
    if (write(c->fd, requests[i], lengths[i]) < 0 && errno != EPIPE && errno != ECONNRESET) check(1, "write");
}

/* 1 once the response is complete, -1 if the connection is lost. */
static int read_response(struct connection *c) {
    ssize_t got = read(c->fd, c->response + c->received, LONGEST - 1 - c->received);
    if (got < 0 && errno == EAGAIN) return 0;
    if (got <= 0) return -1;
    c->received += got;
    c->response[c->received] = 0;
    if (!c->length) {
        char *end = strstr(c->response, "\r\n\r\n"), *length = strcasestr(c->response, "\r\ncontent-length: ");
        if (!end) return 0;
        c->status = atoi(c->response + 9);
        c->length = end + 4 - c->response + (length && length < end ? atol(length + 18) : 0);
        if (c->length >= LONGEST) check(1, "a response is too long");
    }
    return c->received >= c->length;
}

static void read_requests(int argc, char **files) {
    requests = calloc(argc, sizeof *requests);
    lengths = calloc(argc, sizeof *lengths);
    for (count = 0; count < (size_t)argc; count++) {
        FILE *file = fopen(files[count], "rb");
        check(!file, files[count]);
        requests[count] = malloc(LONGEST);
        lengths[count] = fread(requests[count], 1, LONGEST, file);
        fclose(file);
    }
}

int main(int argc, char **argv) {
    if (argc < 6) return fprintf(stderr, "usage: openloop PORT POOL RATE SECONDS FILE...\n"), 2;
    int pool = atoi(argv[2]), idle = 0;
    double rate = atof(argv[3]), seconds = atof(argv[4]), worst[HALVES] = {0}, late = 0;
    long sent = 0, refused = 0, others = 0, cut = 0;
    size_t answered = 0, room = 1 << 20;
    double *latencies = malloc(room * sizeof *latencies);
    struct connection *connections = calloc(pool, sizeof *connections), **free_ones = calloc(pool, sizeof *free_ones);
    struct epoll_event events[1024];

    port = atoi(argv[1]);
    poll_fd = epoll_create1(0);
    read_requests(argc - 5, argv + 5);
    for (int i = 0; i < pool; i++) {
        connections[i].response = malloc(LONGEST);
        open_connection(&connections[i]);
        free_ones[idle++] = &connections[i];
    }
    double start = now(), end = start + seconds;
    for (double time = start; time < end; time = now()) {
        while (idle && (!rate || start + sent / rate <= time)) {
            double due = rate ? start + sent / rate : time;
            if (time - due > late) late = time - due;
            send_next(free_ones[--idle], due);
            sent++;
        }
        /* Spins only in the last millisecond before a request is due: the core may be needed by the server. */
        double left = idle && rate ? start + sent / rate - now() : 0.001;
        int ready = epoll_wait(poll_fd, events, 1024, left > 0 ? left * 1000 : 0);
        for (int i = 0; i < ready; i++) {
            struct connection *c = events[i].data.ptr;
            int was_busy = c->is_busy, done = read_response(c);
            if (done < 0) {
                cut += was_busy;
                close(c->fd);
                open_connection(c);
            }
            if (!done || !was_busy) continue;
            c->is_busy = 0;
            free_ones[idle++] = c;
            if (done < 0) continue;
            if (c->status == 503) refused++;
            else if (c->status != 200) others++;
            else {
                double latency = now() - c->due;
                size_t half = (c->due - start) * 2;
                if (half < HALVES && latency > worst[half]) worst[half] = latency;
                if (answered == room) latencies = realloc(latencies, (room *= 2) * sizeof *latencies);
                latencies[answered++] = latency;
            }
        }
    }
    qsort(latencies, answered, sizeof *latencies, by_value);
    printf("{\"answered\": %zu, \"refused\": %ld, \"others\": %ld, \"cut\": %ld, \"sent\": %ld, \"late\": %.4f", answered,
           refused, others, cut, sent, late);
    printf(", \"p50\": %.4f, \"p99\": %.4f, \"worst\": [", answered ? latencies[answered / 2] : 0,
           answered ? latencies[(size_t)(answered * 0.99)] : 0);
    for (int half = 0; half < HALVES && half < seconds * 2; half++) printf("%s%.4f", half ? ", " : "", worst[half]);
    puts("]}");
    return 0;
}
