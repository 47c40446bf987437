#include "serve/access/clients.h"
#include <arpa/inet.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "base/time/clock.h"

/* More clients than that at a time share the places of the longest silent ones. */
#define PLACES 1024

struct client {
	unsigned char key[16];
	double allowed;
	int64_t at_ns, wrong_since_ns;
	unsigned wrong;
};

struct clients {
	pthread_mutex_t lock;
	struct client v[PLACES]; /* under lock */
	size_t n;
};

struct clients *clients_new(void)
{
	struct clients *c = xcalloc(1, sizeof(*c));

	pthread_mutex_init(&c->lock, NULL);
	return c;
}

void clients_free(struct clients *c)
{
	if (!c)
		return;
	pthread_mutex_destroy(&c->lock);
	free(c);
}

static void key_of(const char *address, unsigned char key[16])
{
	memset(key, 0, 16);
	if (inet_pton(AF_INET, address, key + 12) == 1)
		key[0] = 4; /* no unicast address of IPv6 begins so */
	else if (inet_pton(AF_INET6, address, key) == 1)
		memset(key + 8, 0, 8);
}

/* Call it with `lock` held. */
static struct client *find(struct clients *c, const char *address, int64_t now_ns)
{
	struct client *oldest = &c->v[0];
	unsigned char key[16];

	key_of(address, key);
	for (size_t i = 0; i < c->n; i++) {
		if (memcmp(c->v[i].key, key, sizeof(key)) == 0)
			return &c->v[i];
		if (c->v[i].at_ns < oldest->at_ns)
			oldest = &c->v[i];
	}
	if (c->n < PLACES)
		oldest = &c->v[c->n++];
	*oldest = (struct client){ .allowed = CLIENT_BURST, .at_ns = now_ns };
	memcpy(oldest->key, key, sizeof(key));
	return oldest;
}

bool clients_ask(struct clients *c, const char *address, int64_t now_ns)
{
	struct client *one;
	bool may;

	pthread_mutex_lock(&c->lock);
	one = find(c, address, now_ns);
	one->allowed += (double)(now_ns - one->at_ns) / NS_PER_S * CLIENT_REQUESTS_S;
	one->allowed = MIN(one->allowed, (double)CLIENT_BURST);
	one->at_ns = now_ns;
	may = one->allowed >= 1;
	one->allowed -= may;
	pthread_mutex_unlock(&c->lock);
	return may;
}

bool clients_wrong(struct clients *c, const char *address, int64_t now_ns)
{
	struct client *one;
	bool over;

	pthread_mutex_lock(&c->lock);
	one = find(c, address, now_ns);
	if (now_ns - one->wrong_since_ns > 60 * NS_PER_S) {
		one->wrong_since_ns = now_ns;
		one->wrong = 0;
	}
	over = ++one->wrong > CLIENT_WRONG_TOKENS;
	pthread_mutex_unlock(&c->lock);
	return !over;
}
