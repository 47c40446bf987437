/* engine/cli/upkeep/cmd_store_remote.c — `cairn store push | pull | probe`: the commands of a
 * shared store.
 *
 * find_all_wanted() turns operands into run hashes, from the database, and for `pull` also from a
 * listing of the remote's manifests. storage/remote/tier.h moves the objects; no hashes means
 * everything.
 *
 * `push` also sends what killed or failed runs left unsent. `probe` tests what the bucket can do
 * and prints that.
 *
 * The exit code is 1 when an object that should have been moved is missing.
 */
#include "cli/cli.h"
#include "record/facts.h"
#include "record/manifest/manifest.h"
#include "storage/remote/tier.h"

#define RUN_PREFIX_MIN 4

struct wanted {
	struct cli *cli;
	VEC(struct digest) hashes;
	const char *prefix; /* prefix of the wanted run hash */
	size_t found;
};

static int see_run(void *arg, const struct digest *name, uint64_t size, int64_t mtime_ns)
{
	struct wanted *w = arg;
	char hex[DIGEST_HEX_MAX];

	if (!str_has_prefix(digest_hex(name, hex), w->prefix))
		return 0;
	if (w->found++ == 0)
		VEC_PUSH(&w->hashes, *name);
	return 0;
}

static int find_wanted(struct wanted *w, const char *word, struct remote *remote, struct err *err)
{
	size_t n = strlen(word);
	struct run_row row;
	struct err e = { 0 };
	struct db *db;

	if (cli_db(w->cli, DB_READ, &db, &e) == 0 &&
	    record_find_run(db, word, w->cli->arena, &row, &e) == 0) {
		if (!row.has_hash)
			return err_set(err, ERR_INVALID, "run %s has no run hash: it did not end",
				       row.id);
		VEC_PUSH(&w->hashes, row.hash);
		return 0;
	}
	if (e.code != ERR_NOT_FOUND || !remote || n < RUN_PREFIX_MIN || n > 64 ||
	    strspn(word, "0123456789abcdef") != n)
		return err_pass(err, &e);
	/* A run that this project doesn't know may be another project's. */
	w->prefix = word;
	w->found = 0;
	if (remote_list(remote, STORE_RUN, see_run, w, err) < 0)
		return -1;
	if (w->found == 0)
		return err_set(err, ERR_NOT_FOUND, "there is no run `%s`, neither here nor in %s",
			       word, remote_uri(remote));
	if (w->found > 1)
		return err_set(err, ERR_INVALID,
			       "`%s` is the beginning of %zu run hashes in %s; type more of it",
			       word, w->found, remote_uri(remote));
	return 0;
}

static int find_all_wanted(struct wanted *w, const struct cli_args *args, struct store **ret,
			   bool elsewhere, struct err *err)
{
	if (cli_store(w->cli, false, ret, err) < 0)
		return -1;
	for (size_t i = 0; i < args->n_operands; i++)
		if (find_wanted(w, args->operands[i], elsewhere ? tier_remote(*ret) : NULL, err) <
		    0)
			return -1;
	return 0;
}

static void print_push(struct cli *cli, const struct remote_sent *sent)
{
	if (cli->json) {
		cli_print_json(
			cli, "cairn.store-push/1",
			json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "objects",
				  (json_int_t)sent->objects, "bytes", (json_int_t)sent->bytes,
				  "sent_bytes", (json_int_t)sent->sent_bytes, "requests",
				  (json_int_t)sent->requests, "skipped", (json_int_t)sent->skipped,
				  "missing", (json_int_t)sent->missing));
		return;
	}
	cli_printf(cli, "%llu objects sent (%s, ", (unsigned long long)sent->objects,
		   cli_bytes(cli, sent->bytes));
	cli_printf(cli, "%s on the wire), %llu were there\n", cli_bytes(cli, sent->sent_bytes),
		   (unsigned long long)sent->skipped);
	if (sent->missing)
		cli_printf(cli, "%llu are missing or damaged here\n",
			   (unsigned long long)sent->missing);
}

/* Always sends what killed or failed runs left. */
static int push(struct store *s, const struct wanted *w, bool only_left, struct remote_sent *ret,
		struct err *err)
{
	const struct tier_wanted want = { .manifests = w->hashes.v,
					  .n_manifests = w->hashes.n,
					  .names = &manifest_names };
	struct remote_sent left;

	*ret = (struct remote_sent){ 0 };
	if (!tier_remote(s) || !only_left)
		if (tier_push(s, &want, ret, err) < 0)
			return -1;
	if (tier_send_unsent(s, &manifest_names, &left, err) < 0)
		return -1;
	ret->objects += left.objects;
	ret->bytes += left.bytes;
	ret->requests += left.requests;
	ret->sent_bytes += left.sent_bytes;
	if (only_left || w->hashes.n) {
		ret->skipped += left.skipped;
		ret->missing += left.missing;
	} else { /* it was part of everything, and is counted already */
		ret->missing = MAX(ret->missing, left.missing);
	}
	return 0;
}

int cmd_store_push(struct cli *cli, const struct cli_args *args)
{
	struct wanted w = { .cli = cli };
	struct remote_sent sent;
	struct err err = { 0 };
	struct store *s;
	int r;

	if (cli_flag(args, "unsent") && args->n_operands)
		return cli_usage_error(cli,
				       "--unsent is all that was left unsent: name no run with it");
	r = find_all_wanted(&w, args, &s, false, &err);
	if (r == 0)
		r = push(s, &w, cli_flag(args, "unsent"), &sent, &err);
	VEC_FREE(&w.hashes);
	if (r < 0)
		return cli_fail(cli, &err);
	print_push(cli, &sent);
	return sent.missing ? CLI_TASK_FAILED : CLI_OK;
}

int cmd_store_pull(struct cli *cli, const struct cli_args *args)
{
	struct wanted w = { .cli = cli };
	struct tier_pulled pulled;
	struct err err = { 0 };
	struct store *s;
	int r = find_all_wanted(&w, args, &s, true, &err);

	if (r == 0) {
		const struct tier_wanted want = { .manifests = w.hashes.v,
						  .n_manifests = w.hashes.n,
						  .names = &manifest_names };

		r = tier_pull(s, &want, &pulled, &err);
	}
	VEC_FREE(&w.hashes);
	if (r < 0)
		return cli_fail(cli, &err);
	if (cli->json)
		cli_print_json(cli, "cairn.store-pull/1",
			       json_pack("{s:I, s:I, s:I}", "objects", (json_int_t)pulled.objects,
					 "fetched", (json_int_t)pulled.fetched, "missing",
					 (json_int_t)pulled.missing));
	else
		cli_printf(cli, "%llu objects fetched, %llu were here, %llu missing\n",
			   (unsigned long long)pulled.fetched,
			   (unsigned long long)(pulled.objects - pulled.fetched - pulled.missing),
			   (unsigned long long)pulled.missing);
	return pulled.missing ? CLI_TASK_FAILED : CLI_OK;
}

static const char *yes_no(bool b)
{
	return b ? "yes" : "no";
}

int cmd_store_probe(struct cli *cli, const struct cli_args *args)
{
	struct bucket_abilities can = { 0 };
	struct err err = { 0 };
	struct store *s;

	if (cli_store(cli, false, &s, &err) < 0)
		return cli_fail(cli, &err);
	if (!tier_remote(s)) {
		err_set(&err, ERR_USAGE, "%s is a directory: there is nothing to probe",
			store_uri(s));
		return cli_fail(cli, &err);
	}
	if (bucket_probe(remote_bucket(tier_remote(s)), &can, &err) < 0)
		return cli_fail(cli, &err);
	if (cli->json) {
		cli_print_json(cli, "cairn.store-probe/1",
			       json_pack("{s:b, s:b, s:b, s:b, s:I}", "if_absent", can.if_absent,
					 "checks_body", can.checks_body, "delete_if", can.delete_if,
					 "ranges", can.ranges, "clock_skew_ms",
					 (json_int_t)(can.clock_skew_ns / NS_PER_MS)));
		return CLI_OK;
	}
	cli_printf(cli, "%s\n", cli_text(cli, store_uri(s)));
	cli_printf(cli, "  creates only when absent  %s\n  checks bodies             %s\n",
		   yes_no(can.if_absent), yes_no(can.checks_body));
	cli_printf(cli, "  deletes conditionally     %s\n  answers to ranges         %s\n",
		   yes_no(can.delete_if), yes_no(can.ranges));
	cli_printf(cli, "  our clock is ahead by     %lld ms\n",
		   (long long)(can.clock_skew_ns / NS_PER_MS));
	return CLI_OK;
}
