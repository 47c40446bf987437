/* Which node this is, and where the others are. Names are the frameworks' to resolve: the launcher runs in images without the C library's files, and asks for none. */
#include <stdlib.h>
#include <string.h>
#include "base/text.h"
#include "steps/train/gang.h"

#define HOST_MAX 253 /* RFC 1035 */

static int read_number(const char *name, unsigned max, unsigned *ret, struct err *err)
{
	const char *text = getenv(name);
	int64_t n;

	if (!text || !*text)
		return 0;
	if (!text_parse_int(text, &n) || n < 0 || n > max)
		return err_set(err, ERR_INVALID, "%s is `%.40s`: a number from 0 to %u", name, text, max);
	*ret = (unsigned)n;
	return 1;
}

/* What goes into URLs, lists and JSON of others: letters, digits, dots, dashes, colons, and one %u. */
static bool is_pattern(const char *s)
{
	const char *percent = strchr(s, '%');

	return strlen(s) <= HOST_MAX && strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789.-:%u") == strlen(s) &&
	       (!percent || (percent[1] == 'u' && !strchr(percent + 1, '%')));
}

static bool are_addresses(const char *s, unsigned nodes)
{
	unsigned n = 1;

	for (const char *c = s; *c; c++)
		n += *c == ',';
	return n == nodes && strspn(s, "0123456789abcdef.:,") == strlen(s) && !strstr(s, ",,") && *s != ',' && s[strlen(s) - 1] != ',';
}

static int read_addresses(struct gang *g, struct err *err)
{
	const char *all = getenv("CAIRN_GANG_ADDRESSES");

	if (!all || !*all)
		return 0;
	if (!are_addresses(all, g->nodes))
		return err_set(err, ERR_INVALID, "CAIRN_GANG_ADDRESSES must hold %u addresses, a comma between", g->nodes);
	g->where.addresses = all;
	return 0;
}

static const char *token_of(void)
{
	const char *token = getenv("CAIRN_GANG_TOKEN");

	return token && *token && !strpbrk(token, " \n") ? token : GANG_NO_TOKEN;
}

int nodes_read(struct gang *g, struct err *err)
{
	const char *hosts = getenv("CAIRN_GANG_HOSTS");
	unsigned n = g->nodes, port = GANG_PORT, here = 0, last;
	int r;

	if (!hosts || !*hosts)
		return 0;
	if (!is_pattern(hosts))
		return err_set(err, ERR_INVALID, "CAIRN_GANG_HOSTS is `%.60s`: a host name with %%u for the node's number", hosts);
	r = read_number("CAIRN_GANG_NODE", g->nodes - 1, &here, err);
	if (r == 0)
		r = read_number("JOB_COMPLETION_INDEX", g->nodes - 1, &here, err);
	if (r == 0)
		return err_set(err, ERR_INVALID, "CAIRN_GANG_HOSTS is set, but neither CAIRN_GANG_NODE nor JOB_COMPLETION_INDEX says which node this is");
	if (r < 0 || read_number("CAIRN_GANG_NODES", 1u << 16, &n, err) < 0 || read_number("CAIRN_GANG_PORT", UINT16_MAX, &port, err) < 0)
		return -1;
	if (n != g->nodes)
		return err_set(err, ERR_INVALID, "CAIRN_GANG_NODES says %u nodes, the step %u", n, g->nodes);
	last = port + (g->framework == TENSORFLOW ? g->workers + g->servers : 1);
	if (port <= 1 || last > UINT16_MAX)
		return err_set(err, ERR_INVALID, "CAIRN_GANG_PORT is %u: ports %u to %u are needed", port, port, last);
	g->where = (struct nodes){ .apart = true, .here = here, .hosts = hosts, .port = (uint16_t)port, .token = token_of() };
	return read_addresses(g, err);
}

/* Workers as their ranks go, servers in turn, the scheduler on the first. */
unsigned node_of(const struct gang *g, enum role role, unsigned index)
{
	if (!g->where.apart || role == ROLE_SCHEDULER)
		return 0;
	if (role == ROLE_SERVER)
		return index % g->nodes;
	return g->starts_nodes ? index : index / g->procs_per_node;
}

void add_host(const struct gang *g, unsigned node, struct str *out)
{
	const char *percent = g->where.apart ? strstr(g->where.hosts, "%u") : NULL;

	if (!g->where.apart)
		str_add(out, "127.0.0.1");
	else if (!percent)
		str_add(out, g->where.hosts);
	else
		str_addf(out, "%.*s%u%s", (int)(percent - g->where.hosts), g->where.hosts, node, percent + 2);
}

void add_address(const struct gang *g, unsigned node, struct str *out)
{
	const char *at = g->where.addresses;

	if (!at) {
		add_host(g, node, out);
		return;
	}
	while (node--)
		at = strchr(at, ',') + 1; /* are_addresses() has counted them */
	str_addn(out, at, strcspn(at, ","));
}

/* Each member of tensorflow listens; of the others, the first alone does at an address that must be known. */
uint16_t port_of(const struct gang *g, enum role role, unsigned index)
{
	bool each = g->framework == TENSORFLOW;
	unsigned number = role == ROLE_WORKER ? index : g->workers + index; /* on one machine the order of its members */

	if (g->where.apart)
		return (uint16_t)(g->where.port + (each ? number : 0));
	if (!each)
		return g->ports[0];
	return g->ports[role == ROLE_WORKER ? g->servers + index : index];
}
