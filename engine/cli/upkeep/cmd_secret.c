/* `cairn secret set|list|rm`. A value is read, stored and wiped; it is never printed. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <termios.h>
#include "cli/cli.h"
#include "run/task/secret.h"

static int read_to_end(int fd, struct str *ret, struct err *err)
{
	char buf[4096];
	ssize_t n;

	while ((n = read(fd, buf, sizeof(buf))) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(err, "cannot read the value from standard input");
		str_addn(ret, buf, (size_t)n);
		if (ret->len > SECRET_VALUE_MAX + 1)
			return err_set(err, ERR_TOO_LARGE, "the value is longer than 64 KiB");
	}
	explicit_bzero(buf, sizeof(buf));
	return 0;
}

/* Until Enter. */
static int read_line(int fd, struct str *ret, struct err *err)
{
	char c;
	ssize_t n;

	while ((n = read(fd, &c, 1)) != 0) {
		if (n < 0)
			return errno == EINTR ? err_set(err, ERR_CANCELLED, "nothing was set")
					      : err_errno(err, "cannot read the value");
		if (c == '\n')
			break;
		str_addc(ret, c);
	}
	return 0;
}

static struct termios echo_restore;

static void on_signal(int signo)
{
	tcsetattr(0, TCSANOW, &echo_restore);
	signal(signo, SIG_DFL); /* lint: signal because there is no loop while a person types */
	raise(signo);
}

static int ask(struct cli *cli, const char *name, struct str *ret, struct err *err)
{
	struct termios quiet;
	int r;

	if (tcgetattr(0, &echo_restore) < 0)
		return err_errno(err, "cannot ask without echo");
	quiet = echo_restore;
	quiet.c_lflag &= ~(tcflag_t)ECHO;
	signal(SIGINT, on_signal);  /* lint: signal because there is no loop while a person types */
	signal(SIGTERM, on_signal); /* lint: signal because there is no loop while a person types */
	signal(SIGHUP, on_signal);  /* lint: signal because there is no loop while a person types */
	fprintf(cli->err, "Value of %s (not shown): ", name);
	fflush(cli->err);
	tcsetattr(0, TCSAFLUSH, &quiet);
	r = read_line(0, ret, err);
	tcsetattr(0, TCSAFLUSH, &echo_restore);
	fputc('\n', cli->err);
	return r;
}

int cmd_secret_set(struct cli *cli, const struct cli_args *args)
{
	_cleanup_(str_wipe) struct str value = { 0 };
	const char *name = cli_operand(args, 0);
	const struct config *config;
	struct err err = { 0 };

	str_reserve(
		&value,
		SECRET_VALUE_MAX +
			8192); /* large enough never to be moved, so that no copy stays behind */
	if (!secret_name_is_valid(name))
		return cli_usage_error(cli,
				       "`%s` can't be the name of a secret: letters, digits and _, "
				       "not a digit first",
				       name);
	if (cli_config(cli, &config, &err) < 0)
		return cli_fail(cli, &err);
	if ((isatty(0) ? ask(cli, name, &value, &err) : read_to_end(0, &value, &err)) < 0)
		return cli_fail(cli, &err);
	if (value.len && value.s[value.len - 1] == '\n')
		value.len--;
	if (value.len == 0)
		return cli_usage_error(cli, "the value of %s is empty; nothing was set", name);
	if (secret_set(config, name, value.s, value.len, &err) < 0)
		return cli_fail(cli, &err);
	cli_note(cli, "%s is set; steps get it with `secrets: [%s]`", name, name);
	return CLI_OK;
}

int cmd_secret_list(struct cli *cli, const struct cli_args *args)
{
	struct secret_entry *entries = NULL;
	json_t *list = json_array();
	const struct config *config;
	struct err err = { 0 };
	size_t n = 0;

	if (cli_config(cli, &config, &err) < 0 || secret_list(config, &entries, &n, &err) < 0) {
		json_decref(list);
		return cli_fail(cli, &err);
	}
	for (size_t i = 0; i < n; i++) {
		bool env = entries[i].from_environment;

		json_array_append_new(list, json_pack("{s:s, s:s}", "name", entries[i].name,
						      "source", env ? "environment" : "file"));
		if (!cli->json)
			cli_printf(cli, "%s%s\n", entries[i].name, env ? "  (environment)" : "");
		free(entries[i].name);
	}
	free(entries);
	if (cli->json) {
		cli_print_json(cli, "cairn.secret-list/1", json_pack("{s:o}", "secrets", list));
		return CLI_OK;
	}
	json_decref(list);
	if (n == 0)
		cli_note(cli, "no secret is set; see `cairn secret set --help`");
	return CLI_OK;
}

int cmd_secret_rm(struct cli *cli, const struct cli_args *args)
{
	const struct config *config;
	struct err err = { 0 };
	int code = CLI_OK;

	if (cli_config(cli, &config, &err) < 0)
		return cli_fail(cli, &err);
	for (size_t i = 0; i < args->n_operands; i++)
		if (secret_remove(config, args->operands[i], &err) < 0)
			code = cli_fail(cli, &err);
	return code;
}
