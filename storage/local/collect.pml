/* storage/local/collect.pml — what gc may remove from a store in a directory while runs use it: a
 * model that Spin checks whole. FORMAT.md ("Condemned list") has the rules in words.
 *
 * One object, and a record that names it. Runs take a lease, read the list of the condemned, look
 * for the object and publish a record; one that finds the object condemned renews it. A collector
 * goes round and round, and may die anywhere. Each step touches one file. Clocks: a lease that was
 * taken after the list got its date is later than the list; a renewed object stays young until the
 * leases of its time have ended.
 *
 * What must hold: the object of a record that somebody keeps is there.
 *
 *   spin -a storage/local/collect.pml && cc -O2 -DSAFETY -o pan pan.c && ./pan
 *
 * `spin -DOFF=n -a …` switches rule n off: an assertion fails. tests/fault/protocol.t runs all. */

#ifndef OFF
#define OFF 0
#endif
#define LEASE_FIRST (OFF != 1) /* a run takes its lease, then reads the list */
#define RENEWS (OFF != 2) /* it renews what it finds and the list has */
#define LOOKS_AGAIN (OFF != 3) /* after that it makes sure that the object still has its name */
#define LEASES_FIRST (OFF != 4) /* the collector reads the leases before it marks */
#define WAITS (OFF != 5) /* it removes only what was listed before the oldest lease began */
#define DATED_LAST (OFF != 6) /* the list gets its date when it has its name */
#define TWICE (OFF != 7) /* it removes only what the list had when it began */
#define CHECKS_AGE (OFF != 8) /* it looks at the age again when it removes */

#define RUNS 2

bool there = true;  /* the object */
bool young;         /* it was renewed, or just put */
bool kept;          /* a record names it, and its owner keeps the record */
bool listed, dated; /* it is on the list; the list on which it came has its date */
bool lease[RUNS];
bool knows[RUNS]; /* by the times: this lease began after the list with the object was out */

#define CHECK assert(!kept || there)

inline take_lease(me)
{
	d_step { lease[me] = true; knows[me] = dated }
}

proctype user(byte me)
{
	bool condemned, found;

begin:
	if
	:: LEASE_FIRST -> take_lease(me)
	:: !LEASE_FIRST -> condemned = listed
	fi;
	if
	:: LEASE_FIRST -> condemned = listed
	:: !LEASE_FIRST -> take_lease(me)
	fi;
	found = there;
	if
	:: found && condemned && RENEWS ->
		atomic { if :: there -> young = true :: else fi }; /* under a lock on the object */
		found = there || !LOOKS_AGAIN
	:: else
	fi;
	if
	:: found
	:: !found -> d_step { there = true; young = true } /* the task runs, and puts it */
	fi;
	d_step { kept = true; CHECK };
	d_step { lease[me] = false; knows[me] = false; found = false; condemned = false };
	if :: goto begin :: skip fi
}

/* Retention, and time. */
active proctype night()
{
	do
	:: atomic { kept -> kept = false }
	:: atomic { young && !lease[0] && !lease[1] && !kept -> young = false }
	od
}

inline read_leases()
{
	d_step { waits = WAITS && ((lease[0] && !knows[0]) || (lease[1] && !knows[1])) }
}

/* An object that is new on the list has the date of that list. */
inline unknown()
{
	dated = false; knows[0] = false; knows[1] = false
}

active proctype collector()
{
	bool waits, dead, was;

round:
	was = listed;
	if :: LEASES_FIRST -> read_leases() :: else -> dead = !kept && !young fi;
	if :: LEASES_FIRST -> dead = !kept && !young :: else -> read_leases() fi;
	if
	:: there && dead && (was || !TWICE) && !waits ->
		d_step { if :: !young || !CHECKS_AGE -> there = false :: else fi; CHECK };
		dead = false
	:: skip /* the time isn't there yet */
	:: goto died
	fi;
	/* The next list. */
	if
	:: DATED_LAST ->
		d_step {
			listed = there && dead;
			if :: !was -> unknown() :: else fi
		}
		if
		:: dated = true; /* those that have a lease now may have read the list before */
		:: goto died
		fi
	:: !DATED_LAST ->
		d_step {
			if :: !was -> unknown() :: else fi;
			dated = true /* a lease that is taken now looks later than the list */
		};
		listed = there && dead
	fi;
died:
	waits = false;
	dead = false;
	was = false;
	goto round
}

init {
	atomic { run user(0); run user(1) }
}
