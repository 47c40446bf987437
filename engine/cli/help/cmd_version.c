/* `cairn version`. */
#include <openssl/crypto.h>
#include <sqlite3.h>
#include <yaml.h>
#include "cli/cli.h"

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif
#if defined(__x86_64__)
#define BUILT_FOR "linux x86_64"
#elif defined(__aarch64__)
#define BUILT_FOR "linux aarch64"
#else
#define BUILT_FOR "linux"
#endif

static json_t *libraries(void)
{
	return json_pack("{s:s, s:s, s:s, s:s}", "sqlite", sqlite3_libversion(), "openssl",
			 OpenSSL_version(OPENSSL_VERSION_STRING), "jansson", jansson_version_str(),
			 "libyaml", yaml_get_version_string());
}

int cmd_version(struct cli *cli, const struct cli_args *args)
{
	json_t *libs, *value;
	const char *name;

	if (cli->json) {
		cli_print_json(cli, "cairn.version/1",
			       json_pack("{s:s, s:s, s:s, s:o}", "version", CAIRN_VERSION,
					 "compiler", COMPILER, "built_for", BUILT_FOR, "libraries",
					 libraries()));
		return CLI_OK;
	}
	cli_printf(cli, "cairn %s\n", CAIRN_VERSION);
	if (cli->verbosity < 1)
		return CLI_OK;
	cli_printf(cli, "built with %s for %s\n", COMPILER, BUILT_FOR);
	libs = libraries();
	json_object_foreach(libs, name, value)
		cli_printf(cli, "%s %s\n", name, json_string_value(value));
	json_decref(libs);
	return CLI_OK;
}
