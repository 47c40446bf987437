/* The Kubernetes client from the command line: what tests/net/kubernetes/kube.t drives.
 *
 *   kube_tool [--context C] [--quiet-ms N] [--resync-ms N] [--no-stream] [--page N] COMMAND…
 *   access                       what kubeconfig says, as JSON (no secrets: their lengths)
 *   call METHOD PATH [JSON [CONTENT-TYPE]] [repeatable]     prints the status and the answer
 *   watch GROUP VERSION RESOURCE [SELECTOR]   a line an event, until standard input ends
 *   delete-run PROJECT RUN       prints how many Jobs it has deleted
 *   lease NAME WHO DURATION-MS WITHIN-MS RETRY-MS   a line a change ("MS STATE HOLDER: WHY"), until
 *	                                             standard input ends; then it is released
 *
 * Exit 0; 4 with the message on stderr. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/time/clock.h"
#include "runners/kubernetes/api/lease.h"
#include "runners/kubernetes/api/watch.h"
#include "runners/kubernetes/runner.h"

static int failed(const struct err *err)
{
	fprintf(stderr, "error: %s\ncode: %d\n", err->msg, err->code);
	return 4;
}

static int length(const char *s)
{
	return s ? (int)strlen(s) : 0;
}

static int print_access(const struct kube_access *a)
{
	json_t *j = json_pack(
		"{s:s, s:s, s:s?, s:s, s:s?, s:s?, s:b, s:i, s:i, s:i, s:i, s:s?, s:s?, s:s?}",
		"source", a->source, "server", a->server, "context", a->context, "namespace",
		a->namespace_, "tls_server_name", a->tls_server_name, "proxy", a->proxy, "insecure",
		a->insecure, "ca", length(a->ca_pem), "cert", length(a->cert_pem), "key",
		length(a->key_pem), "token", length(a->token), "token_file", a->token_file, "exec",
		a->exec ? a->exec->command : NULL, "as", a->as_user);
	struct str out = { 0 };

	json_add_canonical(&out, j);
	puts(out.s);
	json_decref(j);
	str_deinit(&out);
	return 0;
}

static int request(const struct kube_access *a, char **v, int n)
{
	const struct kube_client_options o = { .retry_for_ns = 3 * NS_PER_S, .qps = 1000 };
	struct kube_call call = { .method = v[0], .path = v[1] };
	struct kube_client *c;
	struct err err = { 0 };
	struct str out = { 0 };
	json_t *body = NULL;
	int r;

	for (int i = 2; i < n; i++) {
		if (str_eq(v[i], "repeatable"))
			call.repeatable = true;
		else if (!body)
			body = json_loads(v[i], 0, NULL);
		else
			call.content_type = v[i];
	}
	call.body = body;
	if (kube_client_new(a, &o, &c, &err) < 0)
		return failed(&err);
	r = kube_do(c, &call, &err);
	printf("%ld %llu\n", call.status, (unsigned long long)kube_client_requests(c));
	if (r == 0 && call.json)
		json_add_canonical(&out, call.json);
	if (out.len)
		puts(out.s);
	if (r < 0)
		r = failed(&err);
	str_deinit(&out);
	json_decref(body);
	kube_call_deinit(&call);
	kube_client_free(c);
	return r;
}

static int delete_run(const struct kube_access *a, char **v)
{
	const struct kube_client_options o = { .retry_for_ns = 3 * NS_PER_S, .qps = 1e6 };
	struct kube_client *c;
	struct err err = { 0 };
	size_t n;
	int r;

	if (kube_client_new(a, &o, &c, &err) < 0)
		return failed(&err);
	r = kube_delete_run(c, a->namespace_, v[0], v[1], &n, &err);
	printf("%zu\n", n);
	kube_client_free(c);
	return r < 0 ? failed(&err) : 0;
}

static void on_event(void *arg, enum kube_event e, const json_t *object)
{
	static const char *const names[] = { "begin", "end", "added", "modified", "deleted" };
	const json_t *meta = json_object_get(object, "metadata");
	const char *name = json_string_value(json_object_get(meta, "name"));

	printf("%s%s%s\n", names[e], name ? " " : "", name ? name : "");
	fflush(stdout);
}

static void on_trouble(void *arg, const struct err *err, bool denied)
{
	fprintf(stderr, "%s: %s\n", denied ? "denied" : "trouble", err ? err->msg : "over");
}

static long long mono_ms(void)
{
	return clock_system()->mono_ns(clock_system()) / NS_PER_MS;
}

static void on_lease(void *arg, enum kube_lease_state s, const char *holder, const char *why)
{
	static const char *const names[] = { "waiting", "held", "lost" };

	printf("%lld %s %s%s%s\n", mono_ms(), names[s], holder ? holder : "-", why ? ": " : "",
	       why ? why : "");
	fflush(stdout);
}

static int lease(const struct kube_access *a, char **v)
{
	struct kube_lease_options o = { .name = v[0],
					.identity = v[1],
					.duration_ns = atoi(v[2]) * NS_PER_MS,
					.renew_within_ns = atoi(v[3]) * NS_PER_MS,
					.retry_ns = atoi(v[4]) * NS_PER_MS,
					.on_change = on_lease };
	struct kube_lease *l;
	struct err err = { 0 };
	char c;

	if (kube_lease_new(a, &o, &l, &err) < 0)
		return failed(&err);
	while (read(0, &c, 1) > 0)
		;
	/* With its time and at once: others may have it before this process has ended. */
	printf("%lld ending %s\n", mono_ms(), kube_lease_is_held(l) ? "held" : "not held");
	fflush(stdout);
	kube_lease_free(l, true);
	return 0;
}

int main(int argc, char **argv)
{
	struct kube_access_options ao = { 0 };
	struct kube_watch_options wo = { .event = on_event, .trouble = on_trouble };
	struct arena *arena = arena_new();
	struct kube_access a;
	struct kube_watch *w;
	struct err err = { 0 };
	int i = 1, r = 2;
	char c;

	for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
		if (str_eq(argv[i], "--no-stream"))
			wo.no_stream = true;
		else if (str_eq(argv[i], "--context"))
			ao.context = argv[++i];
		else if (str_eq(argv[i], "--page"))
			wo.page = (unsigned)atoi(argv[++i]);
		else if (str_eq(argv[i], "--quiet-ms"))
			wo.quiet_ns = atoi(argv[++i]) * NS_PER_MS;
		else if (str_eq(argv[i], "--resync-ms"))
			wo.resync_ns = atoi(argv[++i]) * NS_PER_MS;
	}
	if (i >= argc)
		return 2;
	if (kube_access_load(&ao, arena, &a, &err) < 0) {
		r = failed(&err);
	} else if (str_eq(argv[i], "access")) {
		r = print_access(&a);
	} else if (str_eq(argv[i], "call") && argc - i > 2) {
		r = request(&a, argv + i + 1, argc - i - 1);
	} else if (str_eq(argv[i], "delete-run") && argc - i > 2) {
		r = delete_run(&a, argv + i + 1);
	} else if (str_eq(argv[i], "lease") && argc - i > 5) {
		r = lease(&a, argv + i + 1);
	} else if (str_eq(argv[i], "watch") && argc - i > 3) {
		wo.group = argv[i + 1];
		wo.version = argv[i + 2];
		wo.resource = argv[i + 3];
		wo.label_selector = argc - i > 4 ? argv[i + 4] : NULL;
		wo.ns = a.namespace_;
		r = kube_watch_new(&a, &wo, &w, &err) < 0 ? failed(&err) : 0;
		while (r == 0 && read(0, &c, 1) > 0)
			;
		if (r == 0)
			kube_watch_free(w);
	}
	arena_free(arena);
	return r;
}
