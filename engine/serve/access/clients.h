/* engine/serve/access/clients.h — what one client may ask in a time, so that none takes the server
 * from the others. A client is an address; of IPv6 its first 64 bits, which one customer of a
 * provider has. Any thread. */
#ifndef CAIRN_SERVE_ACCESS_CLIENTS_H
#define CAIRN_SERVE_ACCESS_CLIENTS_H

#include <stdbool.h>
#include <stdint.h>

#define CLIENT_REQUESTS_S   200  /* in the long run */
#define CLIENT_BURST        1000 /* at once, after a pause */
#define CLIENT_WRONG_TOKENS 60   /* a minute */

struct clients;
struct clients *clients_new(void);
void clients_free(struct clients *c); /* NULL is fine */
/* Counts a request; false: too many. */
bool clients_ask(struct clients *c, const char *address, int64_t now_ns);
/* Counts a wrong token; false: too many. */
bool clients_wrong(struct clients *c, const char *address, int64_t now_ns);

#endif
