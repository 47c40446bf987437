/* engine/model/shell/words.c — which words of a command are code: arguments that programs execute,
 * and words that the shell itself evaluates.
 *
 * The tables list what is known to take code: `code_programs`, `wrappers` (commands that start the
 * command that their arguments name), `code_options`, `active_variables`. A program that isn't
 * listed gets values as plain arguments, as from any other caller. So a missing entry lets a value
 * into code; a superfluous one only refuses a place.
 *
 * A command_state holds what was read of one command. shell.c adds bytes with shell_add_to_word()
 * and ends words with shell_end_word(), which decides by position and options what the next word
 * will be. Words are judged as they are read: nothing that comes later changes the answer. A word
 * with an expansion is unknown (`opaque`), and then the cautious answer is given.
 *
 * shell.c handles quotes, expansions and here-documents.
 */
#include "model/shell/words.h"

#include <string.h>
#include "base/text/str.h"

/* Programs that take code as an argument. An argument of theirs that isn't known to be data is
 * refused. */
static const struct code_program {
	const char *name;
	const char *letters; /* options that precede code, as they stand in a cluster: "-lc" */
	const char
		*with_value; /* options whose value is a separate word, which is no operand then */
	enum {
		OF_OPTION, /* code stands only after such an option */
		OF_SCRIPT, /* the same, and the option comes before the first operand: later words
			      are the script's arguments */
		FIRST_OPERAND, /* the first operand is code, unless such an option was given */
		SECOND_OPERAND,
		ALL,         /* every argument */
		ALL_BUILTIN, /* every argument of a command that is built into the shell */
		WRAPPER, /* like OF_SCRIPT, for one of `wrappers`: then the program that it starts
			    takes its place */
		WRAPPER_OF_FILE, /* like WRAPPER, with an operand of its own before that program */
	} takes;
} code_programs[] = {
	{ "sh", "c", "o", OF_SCRIPT },         { "bash", "c", "oO", OF_SCRIPT },
	{ "dash", "c", "o", OF_SCRIPT },       { "ash", "c", "o", OF_SCRIPT },
	{ "ksh", "c", "o", OF_SCRIPT },        { "zsh", "c", "o", OF_SCRIPT },
	{ "fish", "cC", "", OF_SCRIPT },       { "python", "c", "WX", OF_SCRIPT },
	{ "pypy", "c", "WX", OF_SCRIPT },      { "perl", "eE", "I", OF_SCRIPT },
	{ "ruby", "e", "Ir", OF_SCRIPT },      { "node", "ep", "r", OF_SCRIPT },
	{ "nodejs", "ep", "r", OF_SCRIPT },    { "lua", "e", "l", OF_SCRIPT },
	{ "Rscript", "e", "", OF_SCRIPT },     { "R", "e", "f", OF_SCRIPT },
	{ "julia", "eE", "JCt", OF_SCRIPT },   { "php", "rBRE", "dc", OF_SCRIPT },
	{ "bun", "ep", "r", OF_SCRIPT },       { "elixir", "e", "r", OF_SCRIPT },
	{ "guile", "c", "lLs", OF_SCRIPT },    { "expect", "c", "", OF_SCRIPT },
	{ "octave", "", "p", OF_SCRIPT },      { "pwsh", "c", "", OF_SCRIPT },
	{ "env", "S", "uC", WRAPPER },         { "flock", "c", "wE", WRAPPER_OF_FILE },
	{ "su", "c", "gGs", OF_OPTION },       { "script", "c", "", OF_OPTION },
	{ "runuser", "c", "gGs", OF_OPTION },  { "sg", "c", "", OF_OPTION },
	{ "psql", "c", "dhpUvf", OF_OPTION },  { "duckdb", "cs", "", OF_OPTION },
	{ "mysql", "e", "hPuD", OF_OPTION },   { "mariadb", "e", "hPuD", OF_OPTION },
	{ "awk", "e", "vFf", FIRST_OPERAND },  { "gawk", "e", "vFf", FIRST_OPERAND },
	{ "mawk", "", "vFf", FIRST_OPERAND },  { "nawk", "", "vFf", FIRST_OPERAND },
	{ "sed", "e", "fl", FIRST_OPERAND },   { "gsed", "e", "fl", FIRST_OPERAND },
	{ "jq", "", "fL", FIRST_OPERAND },     { "yq", "", "", FIRST_OPERAND },
	{ "sqlite3", "", "", SECOND_OPERAND }, { "ssh", "", "", ALL },
	{ "parallel", "", "", ALL },           { "watch", "", "", ALL },
	{ "eval", "", "", ALL_BUILTIN },       { "let", "", "", ALL_BUILTIN },
	{ "trap", "", "", ALL_BUILTIN },       { "read", "", "", ALL_BUILTIN },
	{ "unset", "", "", ALL_BUILTIN },      { "getopts", "", "", ALL_BUILTIN },
	{ "mapfile", "", "", ALL_BUILTIN },    { "readarray", "", "", ALL_BUILTIN },
};

/* Commands that start the command that their arguments name. */
static const char *const wrappers[] = {
	/* system: priority, time, user, limits, session, tracing */
	"env", "nohup", "nice", "ionice", "chrt", "time", "timeout", "gtimeout", "gtime", "sudo",
	"doas", "su", "runuser", "gosu", "su-exec", "xargs", "gxargs", "find", "fd", "stdbuf",
	"unbuffer", "setsid", "flock", "chroot", "unshare", "nsenter", "setpriv", "setarch",
	"linux32", "linux64", "prlimit", "cpulimit", "taskset", "numactl", "systemd-run",
	"systemd-inhibit", "cgexec", "strace", "ltrace", "perf", "valgrind", "catchsegv", "script",
	"bwrap", "firejail", "proot", "fakeroot", "faketime", "eatmydata", "chronic", "tini",
	"dumb-init", "xvfb-run", "dbus-run-session", "torsocks", "proxychains", "hyperfine",
	"start-stop-daemon", "inotifywait",
	/* one binary with many programs */
	"busybox", "toybox", "box64", "wine",
	/* environments of packages */
	"uv", "uvx", "poetry", "pipenv", "pdm", "rye", "hatch", "pixi", "conda", "mamba",
	"micromamba", "pyenv", "rbenv", "asdf", "mise", "bundle", "npx", "npm", "pnpm", "yarn",
	"nix", "nix-shell", "guix", "direnv", "dotenv", "op", "aws-vault", "spack", "module",
	/* schedulers, launchers of ranks, profilers */
	"srun", "sbatch", "salloc", "qsub", "bsub", "jsrun", "aprun", "flux", "mpirun", "mpiexec",
	"orterun", "prun", "prterun", "torchrun", "deepspeed", "accelerate", "horovodrun", "nsys",
	"ncu", "compute-sanitizer", "rocprof", "ray",
	/* containers */
	"docker", "podman", "nerdctl", "buildah", "apptainer", "singularity", "kubectl", "oc", NULL
};

/* Long options that precede code. */
static const char *const code_options[] = { "--eval",         "--print",        "--expression",
					    "--command",      "--execute",      "--source",
					    "--init-command", "--split-string", NULL };

/* When one of these is set, the shell itself evaluates the value as an expression or a command. */
static const char *const active_variables[] = { "RANDOM",
						"SRANDOM",
						"SECONDS",
						"LINENO",
						"OPTIND",
						"BASH_ARGV0",
						"PS0",
						"PS1",
						"PS2",
						"PS4",
						"PROMPT_COMMAND",
						"ENV",
						"BASH_ENV",
						"BASH_MONOSECONDS",
						"HISTCMD" };

bool shell_name_char(char c)
{
	return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9');
}

void shell_add_to_word(struct command_state *c, char ch)
{
	c->in_word = true;
	if (c->len < sizeof(c->word) - 1)
		c->word[c->len++] = ch;
	else
		c->opaque = true;
}

bool shell_assigns(const struct command_state *c, size_t *ret_name)
{
	size_t n = 0;

	while (n < c->len && shell_name_char(c->word[n]))
		n++;
	*ret_name = n;
	return n && !(c->word[0] >= '0' && c->word[0] <= '9') && n < c->len &&
	       (c->word[n] == '=' ||
		(c->word[n] == '+' && n + 1 < c->len && c->word[n + 1] == '='));
}

static bool sets_active_variable(const struct command_state *c)
{
	size_t n;

	if (!shell_assigns(c, &n))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(active_variables); i++)
		if (strlen(active_variables[i]) == n &&
		    memcmp(active_variables[i], c->word, n) == 0)
			return true;
	return false;
}

static bool one_of(const char *word, const char *const *list)
{
	while (*list && (**list != *word ||
			 strcmp(*list, word) != 0)) /* one byte first, for speed: a plan looks up
						       each word of each script */
		list++;
	return *list != NULL;
}

static bool takes_no_more(const struct command_state *c)
{
	int own = c->program->takes == WRAPPER_OF_FILE;
	bool ends = c->program->takes == OF_SCRIPT || c->program->takes == WRAPPER ||
		    c->program->takes == WRAPPER_OF_FILE;

	return ends && (c->operands > own || c->code_given);
}

bool shell_word_is_code(struct command_state *c)
{
	const struct code_program *p = c->program;

	c->word[c->len] = 0;
	if (c->name_next || (c->declares && !strchr(c->word, '=')) || sets_active_variable(c))
		return true;
	if (!p || takes_no_more(c))
		return p && c->code_next;
	if (p->takes == ALL || p->takes == ALL_BUILTIN || c->code_next)
		return true;
	if (c->value_next)
		return false;
	if (c->word[0] == '-' && c->word[1] == '-') {
		for (size_t i = 0; code_options[i]; i++)
			if (strncmp(c->word, code_options[i], strlen(code_options[i])) == 0)
				return true;
		return false;
	}
	/* "-cprint(…)": an option with its value in the same word. */
	if (c->word[0] == '-' && c->word[1])
		return !strchr(p->with_value, c->word[1]) && strpbrk(c->word, p->letters);
	return !c->code_given && ((p->takes == FIRST_OPERAND && c->operands == 0) ||
				  (p->takes == SECOND_OPERAND && c->operands == 1));
}

static const struct code_program *find_program(const char *word)
{
	const char *base = strrchr(word, '/');
	size_t n;

	base = base ? base + 1 : word;
	n = strlen(base);
	while (n && ((base[n - 1] >= '0' && base[n - 1] <= '9') || base[n - 1] == '.'))
		n--;
	for (size_t i = 0; i < ARRAY_LEN(code_programs); i++) {
		const char *name = code_programs[i].name;

		if (*name == *base && (strcmp(name, base) == 0 ||
				       (n && strlen(name) == n && memcmp(name, base, n) == 0)))
			return &code_programs[i];
	}
	return NULL;
}

/* An argument of a program that takes code. */
static void note_argument(struct command_state *c, const char *word, bool known)
{
	const struct code_program *p = c->program;
	size_t n = strlen(word);

	if (c->code_next || c->value_next) {
		c->code_next = c->value_next = false;
	} else if (!known || *word != '-' || n == 1) {
		/* A word that is only an expansion may be options. */
		c->operands += known || n > 0;
	} else if (takes_no_more(c)) {
		return;
	} else if (word[1] == '-') {
		c->code_next = one_of(word, code_options);
		if (str_eq(word, "--arg") || str_eq(word, "--argjson") ||
		    str_eq(word, "--slurpfile") || str_eq(word, "--rawfile"))
			c->operands -= 2;
	} else {
		c->code_next = *p->letters && strpbrk(word + 1, p->letters);
		c->value_next = !c->code_next && strchr(p->with_value, word[n - 1]);
		c->code_given |= p->takes == FIRST_OPERAND && word[n - 1] == 'f' && c->value_next;
	}
	c->code_given |= c->code_next;
}

static bool wraps_itself(const struct code_program *p)
{
	return p->takes == WRAPPER || p->takes == WRAPPER_OF_FILE;
}

/* The word may be the program that the command starts: its own name, or the word after `timeout 5`,
 * `xargs`, `find -exec`. */
static void note_program(struct command_state *c)
{
	const struct code_program *p;

	if (c->program && (!wraps_itself(c->program) || c->code_next || c->value_next))
		return;
	p = find_program(c->word);
	if (!p || (p->takes == ALL_BUILTIN && c->named))
		return;
	if (p->takes != OF_OPTION && p->takes != OF_SCRIPT && c->named && !c->wraps)
		return;
	c->program = p;
	c->operands = 0;
}

/* Handles the command's own name, or a word that may stand before it. Returns as
 * shell_end_word(). */
static const char *note_name(struct command_state *c, bool bash)
{
	static const char *const before[] = { "if",    "then",  "else", "elif",   "do",
					      "while", "until", "!",    "{",      "}",
					      "fi",    "done",  "esac", "coproc", NULL };
	static const char *const before_options[] = { "time", "command", "builtin", "exec", NULL };
	static const char *const declaring[] = { "declare",  "typeset", "local",
						 "readonly", "export",  NULL };
	static const char *const with_v[] = { "test", "[", "printf", NULL };
	const char *slash = strrchr(c->word, '/');

	if (str_eq(c->word, "alias") || str_eq(c->word, "shopt")) {
		return "`alias` and `shopt` change how the rest is read";
	}
	c->has_case |= str_eq(c->word, "case");
	c->conditional |= bash && str_eq(c->word, "[[");
	c->declares = one_of(c->word, declaring);
	c->v_names = one_of(c->word, with_v);
	c->wraps |= one_of(slash ? slash + 1 : c->word, wrappers);
	c->takes_options = one_of(c->word, before_options);
	c->named = !c->takes_options && !one_of(c->word, before);
	return NULL;
}

const char *shell_end_word(struct command_state *c, bool bash)
{
	bool known = !c->opaque, set_aside;
	const struct code_program *program = c->program;
	size_t name;

	if (!c->in_word)
		return NULL;
	c->word[c->len] = 0;
	set_aside = c->target || (!c->named && shell_assigns(c, &name));
	c->in_word = c->opaque = c->subscript = c->pattern = c->target = false;
	c->len = 0;
	if (set_aside)
		return NULL;
	c->name_next = c->v_names && known && (str_eq(c->word, "-v") || str_eq(c->word, "-R"));
	if (c->declares &&
	    (!known ? !strchr(c->word, '=') : c->word[0] == '-' && strpbrk(c->word, "inA"))) {
		return "a variable is declared with an option that may make its value an "
		       "expression";
	}
	c->conditional &= !(known && str_eq(c->word, "]]"));
	if (known)
		note_program(c);
	if (program && program == c->program)
		note_argument(c, c->word, known);
	if (c->named) {
		if (c->may_wrap && c->word[0] != '-')
			c->may_wrap = c->wraps = false;
		return NULL;
	}
	if (c->takes_options && c->word[0] == '-') {
		c->wraps = true; /* `time -f %e awk`, `exec -a name awk`: the option may have taken
				    the next word */
		return NULL;
	}
	c->takes_options = false;
	c->named = true;
	if (known)
		return note_name(c, bash);
	c->may_wrap = c->wraps = true; /* "$RUN" awk: the name is unknown, so the first operand
					  counts as a program */
	return NULL;
}

void shell_end_command(struct command_state *c)
{
	c->named = c->wraps = c->may_wrap = c->takes_options = c->code_next = c->code_given =
		c->value_next = c->declares = c->target = false;
	c->v_names = c->name_next = false;
	c->program = NULL;
	c->operands = 0;
}
