/* steps/train/nodes.c — finds out which node this is, and where the others are, from the
 * environment (struct nodes in gang.h lists the variables).
 *
 * gang_read_nodes() checks everything before a member is made: contradictions between the
 * environment and the settings are ERR_INVALID. Host patterns and addresses go into other programs'
 * lists and JSON, so only plain characters are accepted. Without CAIRN_GANG_HOSTS all nodes are
 * this machine, and `where.apart` is false.
 *
 * gang_node() places members, gang_port() and gang_add_address() tell where a member is reached.
 * All launchers compute the same answers from the same environment, without asking each other.
 * Launchers talk at the port before the first (peers.c).
 *
 * The frameworks resolve names: the launcher runs in images without the C library's files, and
 * resolves none. Strings are lent by the environment, which nothing changes.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "base/text/text.h"
#include "steps/train/gang.h"

#define HOST_MAX 253 /* RFC 1035 */

static int read_number(const char *name, unsigned max, unsigned *ret, struct err *err)
{
	const char *text = getenv(name);
	int64_t n;

	if (!text || !*text)
		return 0;
	if (!text_parse_int(text, &n) || n < 0 || n > max)
		return err_set(err, ERR_INVALID, "%s is `%.40s`: a number from 0 to %u", name, text,
			       max);
	*ret = (unsigned)n;
	return 1;
}

/* These go into URLs, lists and JSON of other programs: only letters, digits, dots, dashes, colons,
 * and one %u.
 */
static bool is_pattern(const char *s)
{
	const char *percent = strchr(s, '%');

	return strlen(s) <= HOST_MAX &&
	       strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789.-:%u") == strlen(s) &&
	       (!percent || (percent[1] == 'u' && !strchr(percent + 1, '%')));
}

static int read_addresses(struct gang *g, struct err *err)
{
	const char *all = getenv("CAIRN_GANG_ADDRESSES");
	unsigned n = 1;

	if (!all || !*all)
		return 0;
	for (const char *c = all; *c; c++)
		n += *c == ',';
	if (n != g->size.nodes || strspn(all, "0123456789abcdef.:,") != strlen(all) ||
	    strstr(all, ",,") || *all == ',' || all[strlen(all) - 1] == ',')
		return err_set(err, ERR_INVALID,
			       "CAIRN_GANG_ADDRESSES must hold %u addresses, separated by commas",
			       g->size.nodes);
	g->where.addresses = all;
	return 0;
}

int gang_read_nodes(struct gang *g, struct err *err)
{
	const char *hosts = getenv("CAIRN_GANG_HOSTS"), *token = getenv("CAIRN_GANG_TOKEN");
	unsigned n = g->size.nodes, port = GANG_PORT, here = 0, last;
	int r;

	if (!hosts || !*hosts)
		return 0;
	if (!is_pattern(hosts))
		return err_set(
			err, ERR_INVALID,
			"CAIRN_GANG_HOSTS is `%.60s`: a host name with %%u for the node's number",
			hosts);
	r = read_number("CAIRN_GANG_NODE", g->size.nodes - 1, &here, err);
	if (r == 0)
		r = read_number("JOB_COMPLETION_INDEX", g->size.nodes - 1, &here, err);
	if (r == 0)
		return err_set(err, ERR_INVALID,
			       "CAIRN_GANG_HOSTS is set, but neither CAIRN_GANG_NODE nor "
			       "JOB_COMPLETION_INDEX says which node this is");
	if (r < 0 || read_number("CAIRN_GANG_NODES", 1u << 16, &n, err) < 0 ||
	    read_number("CAIRN_GANG_PORT", UINT16_MAX, &port, err) < 0)
		return -1;
	if (n != g->size.nodes)
		return err_set(err, ERR_INVALID, "CAIRN_GANG_NODES says %u nodes, the step %u", n,
			       g->size.nodes);
	/* Launchers talk at the port before; with tensorflow each member has a port. */
	last = port + (g->framework == TENSORFLOW ? g->size.workers + g->size.servers : 1) - 1;
	if (port < 2)
		return err_set(err, ERR_INVALID,
			       "CAIRN_GANG_PORT is %u: it must be 2 or more, as the port before it "
			       "is used, too",
			       port);
	if (last > UINT16_MAX)
		return err_set(err, ERR_INVALID,
			       "CAIRN_GANG_PORT is %u: ports %u to %u are needed, and %u is the "
			       "last one",
			       port, port - 1, last, UINT16_MAX);
	g->where = (struct nodes){ .apart = true,
				   .here = here,
				   .hosts = hosts,
				   .port = (uint16_t)port,
				   .token = token && *token && !strpbrk(token, " \n")
						    ? token
						    : GANG_NO_TOKEN };
	return read_addresses(g, err);
}

/* Workers in the order of their ranks, servers in turn, the scheduler on the first. */
unsigned gang_node(const struct gang *g, enum role role, unsigned index)
{
	if (gang_is_elastic(g)) /* torchrun and its ranks: each node has its own */
		return g->where.here;
	if (!g->where.apart || role == ROLE_SCHEDULER)
		return 0;
	if (role == ROLE_SERVER)
		return index % g->size.nodes;
	return g->settings.starts_nodes ? index : index / g->size.procs_per_node;
}

void gang_add_host(const struct gang *g, unsigned node, struct str *out)
{
	const char *percent = g->where.apart ? strstr(g->where.hosts, "%u") : NULL;

	if (!g->where.apart)
		str_add(out, "127.0.0.1");
	else if (!percent)
		str_add(out, g->where.hosts);
	else
		str_addf(out, "%.*s%u%s", (int)(percent - g->where.hosts), g->where.hosts, node,
			 percent + 2);
}

void gang_add_address(const struct gang *g, unsigned node, struct str *out)
{
	const char *at = g->where.addresses;

	if (!at) {
		gang_add_host(g, node, out);
		return;
	}
	assert(node < g->size.nodes);
	while (node--)
		at = strchr(at, ',') + 1; /* read_addresses() has counted them */
	str_addn(out, at, strcspn(at, ","));
}

/* With tensorflow each member listens. With others, only the first does at an address that must be
 * known. On one machine g->ports.v is in the order of the members: servers, then workers. */
uint16_t gang_port(const struct gang *g, enum role role, unsigned index)
{
	bool each = g->framework == TENSORFLOW;
	unsigned number;

	if (g->where.apart) { /* servers come after all workers */
		number = role == ROLE_WORKER ? index : g->size.workers + index;
		return (uint16_t)(g->where.port + (each ? number : 0));
	}
	number = !each ? 0 : role == ROLE_WORKER ? g->size.servers + index : index;
	assert(number < g->ports.n);
	return g->ports.v[number];
}
