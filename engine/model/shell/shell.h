/* engine/model/shell/shell.h — how a shell reads the places of a script in which values stand.
 *
 * A value never becomes text of a script. Where `${{ }}` stands, the script names an environment
 * variable, written so that its value arrives as one piece: "${CAIRN_V1}" as a word, ${CAIRN_V1}
 * inside double quotes or a here-document. shell_places() decides which form is right. It follows
 * only as much of the shell's grammar as it can be sure of. A place is SHELL_TEXT, with the reason,
 * when shell_places() can't follow the script there, or when the shell would read the value as code
 * (arithmetic, subscripts, quoted here-documents, programs in another language). Such a place
 * accepts only what can't be read as code anywhere: numbers, true, false, and plain words that the
 * pipeline file itself spells out.
 *
 * Pure; any thread.
 */
#ifndef CAIRN_MODEL_SHELL_SHELL_H
#define CAIRN_MODEL_SHELL_SHELL_H

#include "model/expr/expr.h"

#define SHELL_END_MAX 64 /* a here-document with a longer end word isn't followed */

struct arena;

enum shell_place_kind {
	SHELL_BARE, /* a word, or part of one: "${V}". Each item of a list becomes a word */
	/* The same where several words would mean something else: a list must have exactly one
	 * item. */
	SHELL_ONE,
	SHELL_DOUBLE,  /* inside double quotes: ${V} */
	SHELL_SINGLE,  /* all that stands between single quotes: '"${V}"' */
	SHELL_HERE,    /* in a here-document whose end isn't quoted: ${V} */
	SHELL_COMMENT, /* never executed */
	SHELL_TEXT,    /* no variable can be named here */
};

struct shell_place {
	enum shell_place_kind kind;
	const char *why; /* for SHELL_TEXT: what prevents a variable here. Static */
	/* For SHELL_TEXT: the value would be part of a program, so naming a variable wouldn't help.
	 */
	bool code;
	/* For SHELL_TEXT: next to signs with which even a number or a plain word could mean
	 * something else. */
	bool glued;
	/* What the value's text must not turn into together with the text around it. */
	bool after_name; /* $NAME stands right before it: letters would extend the name */
	bool in_pattern; /* an unquoted ~ or { stands in the word */
	bool first;      /* it begins a command's name: it could be a keyword or an assignment */
	bool redirected; /* < or > stands right after it: a number would be a file descriptor */
	const char *end; /* of SHELL_HERE: the line that ends the here-document */
};

/* One place for each part of the script that is an expression, in their order; NULL when none is.
 */
const struct shell_place *shell_places(const struct expr_template *script, bool bash,
				       struct arena *arena);

/* Writes the variable with this number. Not for SHELL_TEXT and SHELL_COMMENT, which name none. */
void shell_add_variable(struct str *out, enum shell_place_kind kind, uint32_t number);
/* Writes the value as text that a shell reads as the same value there: for people and for keys,
 * never for execution. */
void shell_add_literal(struct str *out, const struct shell_place *place, const char *s, size_t n,
		       uint32_t number);

/* Only letters, digits and _./:=@%+,- and at least one: every programming language reads it as the
 * same text. */
bool shell_plain_word(const char *s, size_t n);

/* Variables' names begin with this and a digit; scripts may not use such names themselves. */
#define SHELL_VARIABLE "CAIRN_V"
bool shell_names_variable(const char *text, size_t n);
/* A variable of the environment can't be longer (MAX_ARG_STRLEN of Linux, with its name). */
#define SHELL_VALUE_MAX (128 * 1024 - 32)

#endif
