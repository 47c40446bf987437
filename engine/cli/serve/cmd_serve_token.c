/* `cairn serve token add|list|revoke`. */
#include "base/time/clock.h"
#include "cli/render/table.h"
#include "record/facts.h"
#include "serve/access/tokens.h"

/* `token`: the text of a new one, or NULL. */
static void print_json(struct cli *cli, const struct token *v, size_t n, const char *token)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:o}", "name", v[i].name,
						      "role", role_name(v[i].role), "made",
						      facts_time(v[i].made_ns), "expires",
						      facts_time(v[i].expires_ns)));
	cli_print_json(cli, "cairn.serve-token/1",
		       json_pack("{s:o, s:o}", "tokens", list, "token", facts_text(token)));
}

static int add(struct cli *cli, const struct cli_args *args, const char *dir, struct err *err)
{
	_cleanup_(str_wipe) struct str text = { 0 };
	struct token t = { .name = cli_operand(args, 1), .made_ns = clock_wall_ns() };
	int64_t valid_ns = 0;

	if (!token_name_is_valid(t.name))
		return err_set(err, ERR_USAGE,
			       "a token's name has letters, digits and any of `._@+-`, at most %d",
			       TOKEN_NAME_MAX);
	t.role = cli_value(args, "role") ? role_parse(cli_value(args, "role")) : ROLE_VIEWER;
	if (cli_duration_value(args, "expires", &valid_ns, err) < 0)
		return -1;
	t.expires_ns = valid_ns ? t.made_ns + valid_ns : 0;
	if (tokens_add(dir, &t, &text, err) < 0)
		return -1;
	if (cli->json)
		print_json(cli, &t, 1, text.s);
	else
		cli_printf(cli, "%s\n", text.s);
	cli_note(cli, "This is shown once. `cairn serve token revoke %s` ends it.", t.name);
	return 0;
}

static int list(struct cli *cli, const char *dir, struct err *err)
{
	_cleanup_(table_freep) struct table *t = table_new();
	struct token *v;
	size_t n;

	if (tokens_read(dir, cli->arena, &v, &n, err) < 0)
		return -1;
	if (cli->json) {
		print_json(cli, v, n, NULL);
		return 0;
	}
	table_column(t, "name", 0);
	table_column(t, "role", 0);
	table_column(t, "made", 0);
	table_column(t, "valid", 0);
	for (size_t i = 0; i < n; i++) {
		int64_t left = v[i].expires_ns - clock_wall_ns();

		table_cell(t, STYLE_PLAIN, "%s", v[i].name);
		table_cell(t, STYLE_PLAIN, "%s", role_name(v[i].role));
		table_cell(t, STYLE_DIM, "%s", cli_ago(cli, v[i].made_ns));
		table_cell(t, STYLE_DIM, "%s",
			   !v[i].expires_ns ? "until revoked"
			   : left > 0       ? cli_duration(cli, left)
					    : "expired");
	}
	if (n)
		table_print(t, cli);
	else
		cli_note(cli, "There are no tokens: `cairn serve token add NAME` makes one.");
	return 0;
}

static int end_token(struct cli *cli, const char *dir, const char *name, struct err *err)
{
	if (tokens_revoke(dir, name, err) < 0)
		return -1;
	if (cli->json)
		print_json(cli, NULL, 0, NULL);
	cli_note(cli, "The token %s and its sessions are not valid any more.", cli_text(cli, name));
	return 0;
}

int cmd_serve_token(struct cli *cli, const struct cli_args *args)
{
	const char *action = cli_operand(args, 0), *name = cli_operand(args, 1);
	bool adds = str_eq(action, "add"), lists = str_eq(action, "list");
	const struct config *c;
	struct err err = { 0 };
	int r;

	if (!adds && !lists && !str_eq(action, "revoke"))
		return cli_usage_error(cli, "`%s` is neither add, list nor revoke", action);
	if (lists && name)
		return cli_usage_error(cli, "`list` takes no name");
	if (!lists && !name)
		return cli_usage_error(cli, "the name of the token is missing");
	if (!adds && (cli_count(args, "role") || cli_count(args, "expires")))
		return cli_usage_error(cli, "--role and --expires go with `add`");
	if (cli_config(cli, &c, &err) < 0)
		return cli_fail(cli, &err);
	r = adds    ? add(cli, args, c->state_dir, &err)
	    : lists ? list(cli, c->state_dir, &err)
		    : end_token(cli, c->state_dir, name, &err);
	return r < 0 ? cli_fail(cli, &err) : CLI_OK;
}
