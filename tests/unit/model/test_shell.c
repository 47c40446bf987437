/* Values in scripts: real shells are given each place with hostile values; a value arrives byte for
 * byte, or the place is refused.
 *
 * In a script, @ is a place. Rows that give `want` say what the shells must print, with @ for the
 * value; rows without are refused. Random scripts are their own oracle: what they print for a
 * hostile value is what they print for a plain word, with the one put in place of the other. Every
 * script is executed twice: as it runs, and as the text that stands in keys. */
#include "core/seeds.h"
#include "unit.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/text/str.h"
#include "model/internal.h"
#include "model/shell/shell.h"

#define OUTPUT_MAX (256 * 1024)
#define PLACES_MAX 32

enum { SH = 1, BASH = 2, BOTH = 3 };

static const struct {
	const char *script;
	const char *want; /* NULL: refused */
	int shells;
} rows[] = {
	/* words */
	{ "printf '<%s>' @", "<@>", BOTH },
	{ "printf '<%s>' a@b", "<a@b>", BOTH },
	{ "printf '<%s>' @#@", "<@#@>", BOTH },
	{ "printf '<%s>' a#@", "<a#@>", BOTH },
	{ "printf '<%s>' --x=@", "<--x=@>", BOTH },
	{ "printf '<%s>' @@", "<@@>", BOTH },
	{ "printf '<%s>' @ @", "<@><@>", BOTH },
	{ "printf '<%s>' '-'@'-'", "<-@->", BOTH },
	{ "printf '<%s>' \"-\"@\"-\"", "<-@->", BOTH },
	{ "printf '<%s>' \\\\@", "<\\@>", BOTH },
	{ "printf '<%s>' \\'@", "<'@>", BOTH },
	{ "printf '<%s>' \\\"@", "<\"@>", BOTH },
	{ "printf '<%s>' \\\n@", "<@>", BOTH },
	{ "printf '<%s>' $#@", "<0@>", BOTH },
	{ "printf '<%s>' *@", "<*@>", BOTH },
	{ "printf '<%s>' ~@", "<~@>", BOTH },
	{ "printf '<%s>' a,@,{b}", "<a,@,{b}>", BOTH },
	{ "printf '<%s>' x{a,b}@", "<xa@><xb@>", BASH },
	{ "x=@; printf '<%s>' \"$x\"", "<@>", BOTH },
	{ "x=@ y=@; printf '<%s>' \"$x$y\"", "<@@>", BOTH },
	{ "x=a:@; printf '<%s>' \"$x\"", "<a:@>", BOTH },
	{ "x=~:@; HOME=/h; printf '<%s>' \"${x#\"${x%%:*}\"}\"", "<:@>", BOTH },
	{ "x=@ sh -c 'printf \"<%s>\" \"$x\"'", "<@>", BOTH },
	{ "env x=@ sh -c 'printf \"<%s>\" \"$x\"'", "<@>", BOTH },
	{ "export x=@; sh -c 'printf \"<%s>\" \"$x\"'", "<@>", BOTH },
	{ "f() { local x=@; printf '<%s>' \"$x\"; }; f", "<@>", BASH },
	{ "f() { printf '<%s>' \"$1\" @; }; f @", "<@><@>", BOTH },
	{ "f () { printf '<%s>' \"$1\"; }\nf @", "<@>", BOTH },
	{ "set -- @ @; printf '<%s>' \"$#\" \"$2\"", "<2><@>", BOTH },
	{ "set -u; printf '<%s>' @", "<@>", BOTH },
	{ "for x in a @ b; do printf '<%s>' \"$x\"; done", "<a><@><b>", BOTH },
	{ "if [ @ = @ ]; then printf '<%s>' @; fi", "<@>", BOTH },
	{ "[ -n x@ ] && printf '<%s>' @", "<@>", BOTH },
	{ "test x@ != y || printf no; printf '<%s>' @", "<@>", BOTH },
	{ "! false && printf '<%s>' @", "<@>", BOTH },
	{ "true; printf '<%s>' @ # it's @", "<@>", BOTH },
	{ "# it's a $(comment) \"@\n printf '<%s>' @", "<@>", BOTH },
	{ "true;# don't\nprintf '<%s>' @", "<@>", BOTH },
	{ "(printf '<%s>' @)", "<@>", BOTH },
	{ "{ printf '<%s>' @; }", "<@>", BOTH },
	{ "( (printf '<%s>' @) )", "<@>", BOTH },
	{ "printf '<%s>' @ | cat", "<@>", BOTH },
	{ "printf '<%s>' @ & wait", "<@>", BOTH },
	{ "printf '<%s>' @ 2>&1 >/dev/stdout", "<@>", BOTH },
	{ "printf '<%s>' @ 2>/dev/null", "<@>", BOTH },
	{ "printf '<%s>' @ &>/dev/stdout", "<@>", BASH },
	{ "case @ in @) printf '<%s>' @;; *) printf no;; esac", "<@>", BOTH },
	{ "case a in (b) :;; a) printf '<%s>' @;; esac; printf '<%s>' @", "<@><@>", BOTH },
	{ "case x@y in x*) printf '<%s>' @;; esac", "<@>", BOTH },
	{ "a=(1 @ 3); printf '<%s>' \"${a[1]}\"", "<@>", BASH },
	{ "a=(1\n @\n); printf '<%s>' \"$a\" @", "<1><@>", BASH },
	{ "for ((i = 0; i < 2; i++)); do printf '<%s>' @; done", "<@><@>", BASH },
	{ "((1 + 1)) && printf '<%s>' @", "<@>", BASH },
	{ "printf '<%s>' $((1 + 2))@", "<3@>", BOTH },
	{ "x=1; printf '<%s>' $((x + (2 * $x)))@", "<3@>", BOTH },
	{ "cat <<<@", "@\n", BASH },
	{ "cat <(printf '<%s>' @)", "<@>", BASH },
	{ "if true; then while read -r x; do printf '<%s>' @; done <<E\n1\nE\nfi", "<@>", BOTH },
	{ "[[ -n a && b = b ]] && printf '<%s>' @", "<@>", BASH },
	{ "[[ abc =~ ^a(b|c) ]] && printf '<%s>' @", "<@>", BASH },
	{ "timeout 5 printf '<%s>' @", "<@>", BOTH },
	{ "printf '<%s>' read let @", "<read><let><@>", BOTH },
	{ "y=a; printf '<%s>' $y@", "<a@>", BOTH },
	{ "y=a; printf '<%s>' \"$y@b\"", "<a@b>", BOTH },
	{ "y=a; cat <<E\n$y@b\nE\n", "a@b\n", BOTH },
	{ "printf '<%s>' x@>/dev/stdout", "<x@>", BOTH },
	{ "printf '<%s>' @>/dev/stdout", "<@>", BOTH },
	{ "printf '<%s>' {a,@}", "<a><@>", BASH },
	{ "printf '<%s>' {@}", "<{@}>", BOTH },
	{ "printf '<%s>' x ~@ \"a:~@\"", "<x><~@><a:~@>", BOTH },
	/* double quotes */
	{ "printf '<%s>' \"@\"", "<@>", BOTH },
	{ "printf '<%s>' \"a @ b\"", "<a @ b>", BOTH },
	{ "printf '<%s>' \"it's @\"", "<it's @>", BOTH },
	{ "printf '<%s>' \"@'s\"", "<@'s>", BOTH },
	{ "printf '<%s>' \"\\\"@\\\"\"", "<\"@\">", BOTH },
	{ "printf '<%s>' \"\\\\@\"", "<\\@>", BOTH },
	{ "printf '<%s>' \"#@\"", "<#@>", BOTH },
	{ "printf '<%s>' \"a\n@\nb\"", "<a\n@\nb>", BOTH },
	{ "printf '<%s>' \"$((2 * 3)) @\"", "<6 @>", BOTH },
	{ "x=1; printf '<%s>' \"${x} $x @\"", "<1 1 @>", BOTH },
	{ "printf '<%s>' \"${x:-a} @\"", "<a @>", BOTH },
	{ "printf '<%s>' \"${x:-$(echo a)} @\"", "<a @>", BOTH },
	{ "printf '<%s>' ${x:-\"a b\"} @", "<a b><@>", BOTH },
	{ "printf '<%s>' ${x:-'a}b'} @", "<a}b><@>", BOTH },
	{ "x=aXb; printf '<%s>' \"${x#a}\" \"${#x}\" @", "<Xb><3><@>", BOTH },
	{ "printf '<%s>' \"{\\\"k\\\": \\\"@\\\"}\"", "<{\"k\": \"@\"}>", BOTH },
	{ "printf '<%s>' \"$\" @", "<$><@>", BOTH },
	{ "printf '<%s>' \"$'@\"", "<$'@>", BOTH },
	{ "printf '<%s>' \"[@]\"", "<[@]>", BOTH },
	{ "printf '<%s>' \"`echo a` @\"", "<a @>", BOTH },
	{ "printf '<%s>' `echo 'a b'` @", "<a><b><@>", BOTH },
	/* single quotes */
	{ "printf '<%s>' '@'", "<@>", BOTH },
	{ "printf '<%s>' a'@'b", "<a@b>", BOTH },
	{ "printf '<%s>' '@''@'", "<@@>", BOTH },
	{ "printf '<%s>' \"'\"'@'\"'\"", "<'@'>", BOTH },
	/* substitutions */
	{ "printf '<%s>' \"$(printf '%s.' @)\"", "<@.>", BOTH },
	{ "printf '<%s>' \"$(printf '%s.' \"@\")\"", "<@.>", BOTH },
	{ "printf '<%s>' \"$(printf '%s.' \"a $(printf '%s,' \"@\") @\") @\"", "<a @, @. @>",
	  BOTH },
	{ "x=$(printf '%s.' @); printf '<%s>' \"$x\"", "<@.>", BOTH },
	{ "x=\"$(printf '%s.' '@' # it's\n)\"; printf '<%s>' \"$x\"", "<@.>", BOTH },
	{ "x=\"$( (printf '%s.' @) )\"; printf '<%s>' \"$x\"", "<@.>", BOTH },
	{ "x=\"$(echo ')' \")\" \\) @.)\"; printf '<%s>' @", "<@>", BOTH },
	{ "printf '<%s>' \"$(cat <<E\na\nE\n)\" @", "<a><@>", BOTH },
	{ "printf '<%s>.' \"$(cat <<E\n@.\nE\n)\"", "<@.>.", BOTH },
	/* here-documents */
	{ "cat <<EOF\n@\nEOF\n", "@\n", BOTH },
	{ "cat <<EOF\nit's \"@\" $((1+1)) # @\nEOF\n", "it's \"@\" 2 # @\n", BOTH },
	{ "cat <<EOF; printf '<%s>' @\na @\nEOF\n", "a @\n<@>", BOTH },
	{ "cat <<-EOF\n\t@\n\tEOF\nprintf '<%s>' @\n", "@\n<@>", BOTH },
	{ "cat <<EOF\n\\$x \\` \\\\ @\nEOF\n", "$x ` \\ @\n", BOTH },
	{ "cat <<EOF\na\\\nb @\nEOF\n", "ab @\n", BOTH },
	{ "cat <<EOF\n$(echo a \"b c\") ${x:-d} @\nEOF\n", "a b c d @\n", BOTH },
	{ "cat <<EOF\n@EOF\nEOF @\nEOF\nprintf '<%s>' @", "@EOF\nEOF @\n<@>", BOTH },
	{ "cat <<A; cat <<B\n@\nA\n$((1)) @\nB\nprintf '<%s>' @\n", "@\n1 @\n<@>", BOTH },
	{ "cat <<'EOF'\nit's $x\nEOF\nprintf '<%s>' @", "it's $x\n<@>", BOTH },
	{ "cat <<\"E F\"\na'\nE F\nprintf '<%s>' @", "a'\n<@>", BOTH },
	{ "cat <<\\EOF\n`a\nEOF\nprintf '<%s>' @", "`a\n<@>", BOTH },
	{ "cat <<E | cat\n@\nE\nprintf '<%s>' @", "@\n<@>", BOTH },
	{ "(cat <<E\n@\nE\n)\nprintf '<%s>' @", "@\n<@>", BOTH },
	{ "if true; then cat <<E\n@\nE\nfi; printf '<%s>' @", "@\n<@>", BOTH },
	{ "cat <<E # it's\n@\nE\nprintf '<%s>' @", "@\n<@>", BOTH },
	/* programs that take code, and what is none of theirs */
	{ "sh -c 'printf \"<%s>\" \"$1\"' sh @", "<@>", BOTH },
	{ "bash -eo pipefail -c 'printf \"<%s>\" \"$1\"' x @", "<@>", BOTH },
	{ "printf x | sed 's/x/y/'; printf '<%s>' @", "y<@>", BOTH },
	{ "awk -v x=1 'BEGIN { printf \"<%s>\", ARGV[1] }' @", "<@>", BOTH },
	{ "printf x | awk '{ printf $1 }' - ; printf '<%s>' @", "x<@>", BOTH },
	{ "time -p printf '<%s>' @", "<@>", BASH },
	{ "command -p printf '<%s>' @", "<@>", BOTH },
	{ "env -i A=b printf '<%s>' @", "<@>", BOTH },
	{ "env LC_ALL=C printf '<%s>%s' -S @", "<-S>@", BOTH },
	{ "p=printf; $p '<%s>%s' awk @", "<awk>@", BOTH },
	{ "nice -n 5 sh -c 'printf \"<%s>\" \"$1\"' sh @", "<@>", BOTH },

	/* refused: no variable can be named */
	{ "echo \\@", NULL, BOTH },
	{ "echo \"\\@\"", NULL, BOTH },
	{ "echo $'@'", NULL, BOTH },
	{ "echo $'it\\'s' @", NULL, SH },
	{ "echo $\"@\"", NULL, BOTH },
	{ "echo `echo @`", NULL, BOTH },
	{ "echo \"`echo @`\"", NULL, BOTH },
	{ "echo `echo \"@\"`", NULL, BOTH },
	{ "echo ${x:-@}", NULL, BOTH },
	{ "echo \"${x:-@}\"", NULL, BOTH },
	{ "echo \"${x:-\"@\"}\"", NULL, BOTH },
	{ "echo \"${x:-\"a\"}\" @", NULL, BOTH },
	{ "echo \"${x%'a'}\" @", NULL, BOTH },
	{ "echo ${x:-$(echo @)}", NULL, BOTH },
	{ "echo $((@ + 1))", NULL, BOTH },
	{ "echo $(( $(echo @) + 1))", NULL, BOTH },
	{ "echo $[1 + @]", NULL, BOTH },
	{ "((x = @))", NULL, BOTH },
	{ "for ((i = 0; i < @; i++)); do :; done", NULL, BOTH },
	{ "let x=@", NULL, BOTH },
	{ "let \"x=@\"", NULL, BOTH },
	{ "a[@]=1", NULL, BOTH },
	{ "a[\"@\"]=1", NULL, BOTH },
	{ "a=([@]=1)", NULL, BASH },
	{ "declare -i x; x=@", NULL, BOTH },
	{ "declare -i x=@", NULL, BASH },
	{ "declare @=1", NULL, BASH },
	{ "local -n x=@", NULL, BASH },
	{ "export @", NULL, BOTH },
	{ "RANDOM=@", NULL, BASH },
	{ "PS4=@; set -x; :", NULL, BOTH },
	{ "BASH_ENV=@ bash -c :", NULL, BOTH },
	{ "[[ @ -eq 1 ]]", NULL, BASH },
	{ "[[ -v @ ]]", NULL, BASH },
	{ "[[ a =~ @ ]]", NULL, BASH },
	{ "[ -v @ ]", NULL, BASH },
	{ "test -v \"@\"", NULL, BASH },
	{ "printf -v @ x", NULL, BASH },
	{ "read @ </dev/null", NULL, BOTH },
	{ "unset @", NULL, BOTH },
	{ "eval @", NULL, BOTH },
	{ "eval \"echo @\"", NULL, BOTH },
	{ "command eval @", NULL, BOTH },
	{ "if eval @; then :; fi", NULL, BOTH },
	{ "trap \"echo @\" EXIT", NULL, BOTH },
	{ "sh -c @", NULL, BOTH },
	{ "sh -c \"echo @\"", NULL, BOTH },
	{ "bash -lc \"echo @\"", NULL, BOTH },
	{ "bash -eo pipefail -c \"echo @\"", NULL, BOTH },
	{ "bash $opts -c \"echo @\"", NULL, BOTH },
	{ "/usr/bin/python3.11 -c \"print('@')\"", NULL, BOTH },
	{ "python3 -c 'print(\"@\")'", NULL, BOTH },
	{ "python3 -Wignore -c \"print('@')\"", NULL, BOTH },
	{ "python3 -W ignore -c \"print('@')\"", NULL, BOTH },
	{ "python3 2>/dev/null -c \"print('@')\"", NULL, BOTH },
	{ "x=1 python3 -c \"print('@')\"", NULL, BOTH },
	{ "timeout 5 python3 -c \"print('@')\"", NULL, BOTH },
	{ "find . -exec sh -c \"echo @\" \\;", NULL, BOTH },
	{ "xargs sh -c \"echo @\"", NULL, BOTH },
	{ "env x=1 sh -c \"echo @\"", NULL, BOTH },
	{ "ssh host \"cd @\"", NULL, BOTH },
	{ "awk \"{ print @ }\"", NULL, BOTH },
	{ "awk -v x=1 \"{ print @ }\"", NULL, BOTH },
	{ "awk '{ print \"@\" }'", NULL, BOTH },
	{ "timeout 5 sed \"s/x/@/\"", NULL, BOTH },
	{ "sed 2>/dev/null \"s/x/@/\"", NULL, BOTH },
	/* programs that start programs, with options and values of their own */
	{ "time -p awk \"{ print @ }\"", NULL, BOTH },
	{ "/usr/bin/time -f %e awk \"{ print @ }\"", NULL, BOTH },
	{ "/usr/bin/env sed \"s/x/@/\"", NULL, BOTH },
	{ "time -p eval \"echo @\"", NULL, BOTH },
	{ "command -p eval \"echo @\"", NULL, BOTH },
	{ "command -p sed \"s/x/@/\"", NULL, BOTH },
	{ "exec -a name sed \"s/x/@/\"", NULL, BOTH },
	{ "command -p export @", NULL, BOTH },
	{ "nice -n 5 sed \"s/x/@/\"", NULL, BOTH },
	{ "env -i A=b awk \"{ print @ }\"", NULL, BOTH },
	{ "env -u sed awk \"{ print @ }\"", NULL, BOTH },
	{ "env -S \"echo @\"", NULL, BOTH },
	{ "env -iS \"echo @\"", NULL, BOTH },
	{ "env --split-string=\"echo @\"", NULL, BOTH },
	{ "env -i A=b sh -c \"echo @\"", NULL, BOTH },
	{ "flock lock -c \"echo @\"", NULL, BOTH },
	{ "flock -w 5 lock sed \"s/x/@/\"", NULL, BOTH },
	{ "busybox awk \"{ print @ }\"", NULL, BOTH },
	{ "uv run --frozen awk \"{ print @ }\"", NULL, BOTH },
	{ "conda run -n x jq \".x == @\"", NULL, BOTH },
	{ "apptainer exec x.sif sqlite3 x.db \"SELECT '@'\"", NULL, BOTH },
	{ "chrt -b 0 sed \"s/x/@/\"", NULL, BOTH },
	{ "mpiexec -n 2 sed \"s/x/@/\"", NULL, BOTH },
	{ "su -c \"echo @\" root", NULL, BOTH },
	{ "runuser root -c \"echo @\"", NULL, BOTH },
	{ "coproc eval \"echo @\"", NULL, BASH },
	{ "$RUN awk \"{ print @ }\"", NULL, BOTH },
	{ "$RUN -v sed \"s/x/@/\"", NULL, BOTH },
	{ "\"$RUN\"x sed \"s/x/@/\"", NULL, BOTH },
	{ "sed -n -e \"s/x/@/\"", NULL, BOTH },
	{ "sed --expression=\"s/x/@/\"", NULL, BOTH },
	{ "perl -ne \"print @\"", NULL, BOTH },
	{ "perl -e\"print @\"", NULL, BOTH },
	{ "sqlite3 x.db \"SELECT '@'\"", NULL, BOTH },
	{ "jq \".x == @\"", NULL, BOTH },
	{ "psql -c \"SELECT '@'\"", NULL, BOTH },
	{ "echo '{\"k\": \"@\"}'", NULL, BOTH },
	{ "cat <<'EOF'\n@\nEOF\n", NULL, BOTH },
	{ "cat <<\"EOF\"\n@\nEOF\n", NULL, BOTH },
	{ "cat <<\\EOF\n@\nEOF\n", NULL, BOTH },
	{ "python3 - <<'EOF'\nprint('@')\nEOF\n", NULL, BOTH },
	{ "cat <<@\nx\n@\n", NULL, BOTH },
	{ "cat <<EOF\n\\@\nEOF\n", NULL, BOTH },
	{ "cat <<EOF\n$(echo @)\nEOF\n", NULL, BOTH },
	{ "cat <<EOF\n`echo @`\nEOF\n", NULL, BOTH },
	{ "cat <<EOF\n${x:-@}\nEOF\n", NULL, BOTH },
	{ "cat <<EOF\na\\\nEOF\necho '@'\nEOF\n", NULL, BOTH },
	{ "echo $(cat <<E) @\na\nE\n", NULL, BOTH },
	{ "cat <<E \"a\nE\nb\" @\nE\n", NULL, BOTH },
	{ "x=$(case a in a) echo ')';; esac); echo @", NULL, BOTH },
	{ "alias q=\"'\"; echo @", NULL, BOTH },
	{ "shopt -s extglob; echo @", NULL, BASH },
	{ "echo !(a|#b) @", NULL, BASH },
	{ "echo $((echo a); (echo b)) @", NULL, BOTH },
};

static const char *const values[] = {
	"plain",
	"2",
	"1..3",
	"b,c",
	"root",
	"",
	"a b",
	"$(touch PWNED)",
	"`touch PWNED`",
	"'; touch PWNED; '",
	"\"; touch PWNED; \"",
	"a'b\"c\\d",
	"*",
	"~",
	"#x",
	"a\nb",
	"\nEOF\nE\ntouch PWNED\n",
	"${CAIRN_V1}",
	"a[$(touch PWNED)]",
	"-n",
	"\\",
	"\x80\xff\xfe",
	"\x01\x7f\x81\x82\x88",
};

/* Shells. */

static char dir[TEST_DIR_MAX];

/* What the script prints. Its own exit status is of no interest. */
static void execute(bool bash, const char *script, const char *const *env, struct str *out)
{
	int fds[2];
	pid_t pid;
	ssize_t n;

	str_reset(out);
	str_add(out, "");
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		int null = open("/dev/null", O_RDWR);

		dup2(null, 0);
		dup2(fds[1], 1);
		dup2(getenv("TEST_SHELL_ERRORS") ? 2 : null, 2);
		if (chdir(dir) == 0 && bash)
			execle("/bin/bash", "/bin/bash", "-o", "pipefail", "-c", script, NULL, env);
		else
			execle("/bin/sh", "/bin/sh", "-c", script, NULL, env);
		_exit(126);
	}
	close(fds[1]);
	while (out->len < OUTPUT_MAX) {
		char buf[4096];

		n = read(fds[0], buf, sizeof(buf));
		if (n <= 0)
			break;
		str_addn(out, buf, (size_t)n);
	}
	close(fds[0]);
	waitpid(pid, NULL, 0);
}

/* The script of an @ text, as a template. */
struct made {
	struct expr_template t;
	struct expr_part parts[2 * PLACES_MAX + 1];
	const struct shell_place *places[2 * PLACES_MAX + 1]; /* by part; NULL for text */
	struct expr e;
};

static struct arena *arena; /* of the places of the last scripts */

static int new_arena(void **state)
{
	(void)state;
	arena = arena_new();
	return 0;
}

static int free_arena(void **state)
{
	(void)state;
	arena_free(arena);
	return 0;
}

static void make(struct made *m, const char *script, bool bash)
{
	const struct shell_place *place;

	memset(m, 0, sizeof(*m));
	m->t.parts = m->parts;
	while (*script) {
		struct expr_part *p = &m->parts[m->t.n_parts++];

		assert_true(m->t.n_parts <= 2 * PLACES_MAX);
		if (*script == '@') {
			p->expr = &m->e;
			script++;
			continue;
		}
		p->text = script;
		p->len = strcspn(script, "@");
		script += p->len;
	}
	place = shell_places(&m->t, bash, arena);
	for (size_t i = 0; i < m->t.n_parts; i++)
		m->places[i] = m->parts[i].expr ? place++ : NULL;
}

static bool refused(const struct made *m)
{
	for (size_t i = 0; i < m->t.n_parts; i++)
		if (m->parts[i].expr && m->places[i]->kind == SHELL_TEXT)
			return true;
	return false;
}

/* Programs with the variables named, and with the value written in. False: the latter can't be had.
 */
static bool compose(const struct made *m, const char *value, struct str *program,
		    struct str *literal)
{
	bool both = true;
	size_t before;

	str_reset(program);
	str_reset(literal);
	for (size_t i = 0; i < m->t.n_parts; i++) {
		const struct expr_part *p = &m->parts[i];

		if (!p->expr) {
			str_addn(program, p->text, p->len);
			str_addn(literal, p->text, p->len);
			continue;
		}
		if (m->places[i]->kind != SHELL_COMMENT)
			shell_add_variable(program, m->places[i]->kind, 1);
		before = literal->len;
		shell_add_literal(literal, m->places[i], value, strlen(value), 1);
		both &= !memmem(literal->s + before, literal->len - before, SHELL_VARIABLE,
				strlen(SHELL_VARIABLE));
	}
	return both;
}

static void put_in(struct str *out, const char *text, char mark, const char *value)
{
	str_reset(out);
	str_add(out, "");
	for (; *text; text++)
		if (*text == mark)
			str_add(out, value);
		else
			str_addc(out, *text);
}

static void same(const char *what, bool bash, const char *script, const char *value,
		 const struct str *got, const struct str *want)
{
	if (got->len == want->len && memcmp(got->s, want->s, got->len) == 0)
		return;
	print_error("%s, %s, value <%s>:\n%s\n--- printed <%s>\n--- not     <%s>\n",
		    bash ? "bash" : "sh", what, value, script, got->s, want->s);
	fail();
}

static void not_executed(const char *script, const char *value)
{
	char path[TEST_DIR_MAX + 8];

	snprintf(path, sizeof(path), "%s/PWNED", dir);
	if (access(path, F_OK) != 0)
		return;
	print_error("executed <%s> in:\n%s\n", value, script);
	fail();
}

static void check_row(size_t i, bool bash)
{
	struct str program = { 0 }, literal = { 0 }, want = { 0 }, got = { 0 };
	struct made m;

	make(&m, rows[i].script, bash);
	if (refused(&m) != (rows[i].want == NULL)) {
		print_error("%s: %s:\n%s\n", bash ? "bash" : "sh",
			    rows[i].want ? "refused" : "not refused", rows[i].script);
		fail();
	}
	for (size_t k = 0; rows[i].want && k < ARRAY_LEN(values); k++) {
		/* Each value meets a third of the rows; the likeliest to do harm, and the nastiest
		 * bytes, all of them. */
		if (!getenv("CAIRN_TEST_SEEDS") && k % 3 != i % 3 && k != 1 && k != 7 && k != 9 &&
		    k + 1 != ARRAY_LEN(values))
			continue;
		_cleanup_(freep) char *variable = xasprintf(SHELL_VARIABLE "1=%s", values[k]);
		const char *const env[] = { "PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8", "HOME=/nowhere",
					    variable, NULL };
		bool both = compose(&m, values[k], &program, &literal);

		put_in(&want, rows[i].want, '@', values[k]);
		execute(bash, program.s, env, &got);
		same("executed", bash, program.s, values[k], &got, &want);
		if (both && (k + i) % 2) {
			execute(bash, literal.s,
				(const char *const[]){ env[0], env[1], env[2], NULL }, &got);
			same("as text", bash, literal.s, values[k], &got, &want);
		}
		not_executed(program.s, values[k]);
	}
	str_deinit(&program);
	str_deinit(&literal);
	str_deinit(&want);
	str_deinit(&got);
}

static void test_places(void **state)
{
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		n += rows[i].shells != 0;
	for (size_t i = 0; i < ARRAY_LEN(rows); i += seeds_stride(16)) {
		if (rows[i].shells & SH)
			check_row(i, false);
		if (rows[i].shells & BASH)
			check_row(i, true);
	}
	assert_true(n >= 150);
}

/* Random scripts. */

static uint64_t seed;

static unsigned pick(unsigned n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(seed >> 33) % n;
}

static void random_word(struct str *s, unsigned depth, unsigned *places);

static void random_place(struct str *s, unsigned *places)
{
	str_add(s, *places > 0 ? "@" : "z");
	*places -= *places > 0;
}

static void random_quoted(struct str *s, unsigned depth, unsigned *places)
{
	static const char *const noise[] = { "a", " ",       "it's",       "\\\"", "\\\\",
					     "#", "${y:-b}", "$((1 + 1))", "\n",   ";",
					     "(", ")",       "<<E",        "'",    "$ ",
					     "!", "\\$(x)",  "`echo c`",   "$y",   "\\a" };

	for (unsigned n = pick(4); n; n--)
		str_add(s, noise[pick(ARRAY_LEN(noise))]);
	if (pick(2))
		random_place(s, places);
	if (depth && pick(3) == 0) {
		str_add(s, " $(printf %s. ");
		random_word(s, depth - 1, places);
		str_add(s, ") ");
	}
	if (pick(3) == 0)
		random_place(s, places);
}

static void random_word(struct str *s, unsigned depth, unsigned *places)
{
	static const char *const noise[] = { "a",
					     "\\'",
					     "\\\"",
					     "x#y",
					     "'it\"s $(x) #'",
					     "\"'\"",
					     "\\\\",
					     "${y:-\"q r\"}",
					     "$((2 * (3 + 1)))",
					     "'`'",
					     "\\\n",
					     "{}",
					     ",",
					     "=",
					     "\\(",
					     "\\#",
					     "$'q'",
					     "]",
					     "''" };

	for (unsigned n = 1 + pick(4); n; n--) {
		switch (pick(6)) {
		case 0:
			random_place(s, places);
			break;
		case 1:
			str_addc(s, '"');
			random_quoted(s, depth, places);
			str_addc(s, '"');
			break;
		case 2:
			str_add(s, "'");
			random_place(s, places);
			str_add(s, "'");
			break;
		case 3:
			if (depth) {
				str_add(s, "\"$(printf %s. ");
				random_word(s, depth - 1, places);
				str_add(s, pick(4) ? ")\"" : " # it's\n)\"");
				break;
			}
			/* fallthrough */
		default:
			str_add(s, noise[pick(ARRAY_LEN(noise))]);
		}
	}
}

static void random_script(struct str *s, unsigned places)
{
	static const char *const between[] = { "; ",
					       "\n",
					       " # it's \"a $(comment\n",
					       "\n#\n",
					       "; true && ",
					       "; false || ",
					       "\nif true; then :; fi\n",
					       ";{ :; }\n",
					       "\n(:)\n",
					       "\ncase a in (b) ;; a) ;; esac\n" };

	str_reset(s);
	for (unsigned n = 1 + pick(4); n; n--) {
		switch (pick(5)) {
		case 0:
			str_add(s, "cat <<E\nit's \" # \\$ \\\\ ");
			random_place(s, &places);
			str_add(s,
				pick(2) ? "\nE\n" : "E $y ${y:-\"a b\"} $(echo \"a b\")\n E\nE\n");
			break;
		case 1:
			str_add(s, "x=");
			random_word(s, 2, &places);
			str_add(s, "; printf '<%s>' \"$x\"");
			break;
		case 2:
			str_add(s, "f() { printf '{%s}' \"$1\"; }; f ");
			random_word(s, 2, &places);
			break;
		default:
			str_add(s, "printf '<%s>' ");
			random_word(s, 2, &places);
			str_addc(s, ' ');
			random_word(s, 2, &places);
		}
		if (n > 1)
			str_add(s, between[pick(ARRAY_LEN(between))]);
	}
}

static void random_value(char *buf, size_t size)
{
	static const char *const parts[] = { "$(touch PWNED)",
					     "`touch PWNED`",
					     "'",
					     "\"",
					     "\\",
					     "$",
					     "\n",
					     "E\n",
					     "\nE\ntouch PWNED\n",
					     ";touch PWNED;",
					     "*",
					     " ",
					     "\t",
					     "#",
					     "}",
					     ")",
					     "${y}",
					     "$((",
					     "~",
					     "\r",
					     "&" };
	size_t n = 0, len;

	for (unsigned k = 1 + pick(6); k; k--) {
		if (pick(3)) {
			const char *part = parts[pick(ARRAY_LEN(parts))];

			len = strlen(part);
			memcpy(buf + n, part, len);
			n += len;
		} else {
			buf[n++] = (char)(1 + pick(255));
		}
		assert_true(n + 20 < size);
	}
	/* A substitution drops newlines at its end, as it is meant to. */
	buf[n++] = '.';
	buf[n] = 0;
}

static void replace_all(struct str *out, const struct str *in, const char *word, const char *value)
{
	const char *p = in->s, *end = in->s + in->len, *found;

	str_reset(out);
	str_add(out, "");
	while ((found = memmem(p, (size_t)(end - p), word, strlen(word)))) {
		str_addn(out, p, (size_t)(found - p));
		str_add(out, value);
		p = found + strlen(word);
	}
	str_addn(out, p, (size_t)(end - p));
}

static void test_random(void **state)
{
	const char *count = getenv("CAIRN_TEST_SEEDS");
	uint64_t n = count ? strtoull(count, NULL, 10) : seeds_quick() ? 50 : 300;
	struct str script = { 0 }, program = { 0 }, literal = { 0 }, plain = { 0 }, want = { 0 },
		   got = { 0 };
	uint64_t accepted = 0;

	for (uint64_t i = 1; i <= n; i++) {
		char value[256], variable[300];
		bool bash;
		struct made m;

		seed = i;
		pick(2);
		bash = pick(2);
		random_script(&script, 6);
		random_value(value, sizeof(value));
		make(&m, script.s, bash);
		if (refused(&m))
			continue;
		accepted++;
		compose(&m, "Q7ZTOKEN", &program, &literal);
		execute(bash, program.s,
			(const char *const[]){ "PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8", "y=why",
					       SHELL_VARIABLE "1=Q7ZTOKEN", NULL },
			&plain);
		replace_all(&want, &plain, "Q7ZTOKEN", value);
		snprintf(variable, sizeof(variable), SHELL_VARIABLE "1=%s", value);
		execute(bash, program.s,
			(const char *const[]){ "PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8", "y=why",
					       variable, NULL },
			&got);
		same("executed", bash, program.s, value, &got, &want);
		if (compose(&m, value, &program, &literal)) {
			execute(bash, literal.s,
				(const char *const[]){ "PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8",
						       "y=why", NULL },
				&got);
			same("as text", bash, literal.s, value, &got, &want);
		}
		not_executed(script.s, value);
	}
	assert_true(accepted > n / 4);
	str_deinit(&script);
	str_deinit(&program);
	str_deinit(&literal);
	str_deinit(&plain);
	str_deinit(&want);
	str_deinit(&got);
}

/* Whatever it is given, each place gets an answer. */
static void test_any_bytes(void **state)
{
	static const char signs[] = "@@@'\"\\$`(){}[]<>#;&|\n\t =abcE-";
	char text[65];

	for (uint64_t i = 1; i <= 200000; i += seeds_stride(10)) {
		struct made m;
		unsigned n;

		seed = i;
		n = pick(sizeof(text) - 1);
		for (unsigned k = 0; k < n; k++)
			text[k] = signs[pick(sizeof(signs) - 1)];
		text[n] = 0;
		make(&m, text, i % 2);
	}
}

static int make_dir(void **state)
{
	test_dir(dir, sizeof(dir), "test_shell");
	return 0;
}

static int remove_dir(void **state)
{
	char *command = xasprintf("rm -rf %s", dir);
	int r = system(command);

	free(command);
	return r;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_places, new_arena, free_arena),
		cmocka_unit_test_setup_teardown(test_random, new_arena, free_arena),
		cmocka_unit_test_setup_teardown(test_any_bytes, new_arena, free_arena),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
