/* storage/protocol.pml — who may remove what from a shared store: a model that Spin checks whole.
 *
 * One content. Copies of it lie in packs, each with an index; the first pack is old, the other is
 * written meanwhile. Writers look for a copy, or make one, and publish a record that names the
 * content and is kept until its owner gives it up. A collector goes round and round, and may die
 * anywhere; a verifier saves what lies in a pack whose index is gone. Each request to the bucket is
 * one step, and anybody's step may come between two of somebody else's. There is no clock: a lease
 * lapses when it likes, for its holder and for others at once. FORMAT.md says what is taken for
 * granted.
 *
 * What must hold: a record that is there can be read; an index that is there has its pack.
 *
 *   spin -a storage/protocol.pml && cc -O2 -DSAFETY -o pan pan.c && ./pan -m100000
 *
 * `spin -DOFF=n -a …` switches rule n off: an assertion fails. tests/fault/protocol.t runs all. */

#ifndef OFF
#define OFF 0
#endif
#define LEASE_FIRST (OFF != 1) /* a writer takes its lease, then reads the list of the condemned */
#define LISTED_IS_ABSENT (OFF != 2) /* what is on that list isn't believed in */
#define PACK_FIRST (OFF != 3) /* a pack is there before its index */
#define CONTENT_FIRST (OFF != 4) /* content is there before a record names it */
#define INDEX_IN_TIME (OFF != 5) /* an index is written only under the lease of its pack */
#define RECORD_IN_TIME (OFF != 6) /* and a record under the one under which its content was found */
#define FORGETS (OFF != 7) /* who takes another lease looks anew */
#define LEASES_FIRST (OFF != 8) /* a collector reads the leases before it looks for records */
#define WAITS (OFF != 9) /* it removes only what went onto the list before the oldest lease began */
#define STAYS_LISTED (OFF != 10) /* what it removes is also on the list that it publishes then */
#define TWICE (OFF != 11) /* it removes only what an earlier list had */
#define INDEX_GOES_FIRST (OFF != 12) /* it removes an index before its pack */
#define ORPHANS_WAIT (OFF != 13) /* a pack without an index goes only when no lease is as old */
#define NEW_NAMES (OFF != 14) /* what is saved goes into a new pack: no name is written twice */
#define HELD (OFF != 15) /* what a record names that is dead, but stays for now, stays too */
#define RECORD_GOES_FIRST (OFF != 16) /* a record is removed before what it names */

#define NAMES 2
#define CLIENTS 3
#define VERIFIER 2

/* The bucket. Each name of a pack is given once. */
bool pack[NAMES], idx[NAMES], listed[NAMES], record;
bool kept, record_listed; /* by its owner, who is a root; on the list of the condemned */
byte names = 1;
/* Leases. before: it began before that pack went onto the list; wrote: before it was written. */
bool lease[CLIENTS];
typedef packs { bool p[NAMES] };
packs before[CLIENTS], wrote[CLIENTS];
bool before_record[CLIENTS]; /* before the record went onto the list */

#define READABLE(i) (idx[i] && pack[i])
#define CHECK \
	assert(!record || READABLE(0) || READABLE(1)); \
	assert((!idx[0] || pack[0]) && (!idx[1] || pack[1]))

/* A machine sleeps, or is cut off, for longer than its lease lasts. Or it has ended. */
inline drop_lease(c, i)
{
	d_step {
		lease[c] = false; before_record[c] = false;
		for (i : 0 .. NAMES - 1) { before[c].p[i] = false; wrote[c].p[i] = false }
		i = 0
	}
}

active proctype night()
{
	byte i;

	do
	:: atomic { lease[0] -> drop_lease(0, i) }
	:: atomic { lease[1] -> drop_lease(1, i) }
	:: atomic { lease[2] -> drop_lease(2, i) }
	:: atomic { kept -> kept = false } /* its owner's retention */
	od
}

inline take_lease(me, i)
{
	d_step {
		lease[me] = true; before_record[me] = !record_listed;
		for (i : 0 .. NAMES - 1) { before[me].p[i] = !listed[i]; wrote[me].p[i] = false }
		i = 0
	}
}

inline write_pack(n, c)
{
	d_step {
		pack[n] = true;
		for (c : 0 .. CLIENTS - 1) { wrote[c].p[n] = lease[c] }
		c = 0
	}
}

/* A new pack, then its index. */
inline put(me, n, c, done)
{
	atomic {
		names < NAMES -> n = names; names++; /* else the model ends here */
		if :: PACK_FIRST -> write_pack(n, c) :: else fi
	}
	atomic {
		if :: lease[me] || !INDEX_IN_TIME -> idx[n] = true; CHECK; done = true :: else fi
	}
	atomic {
		if :: PACK_FIRST :: else -> write_pack(n, c) fi;
		n = 0
	}
}

inline read_list(i)
{
	d_step {
		for (i : 0 .. NAMES - 1) { bad[i] = listed[i] }
		over = record_listed;
		i = 0
	}
}

proctype writer(byte me)
{
	bool bad[NAMES], believes, over; /* over: a record that is there is written over */
	byte i, n;

begin:
	atomic {
		if :: LEASE_FIRST -> take_lease(me, i) :: else -> read_list(i) fi
	}
	atomic {
		if :: LEASE_FIRST -> read_list(i) :: else -> take_lease(me, i) fi
	}
	atomic {
		for (i : 0 .. NAMES - 1) {
			believes = believes || (idx[i] && !(bad[i] && LISTED_IS_ABSENT));
			bad[i] = false
		}
		i = 0;
		record = record || !CONTENT_FIRST;
		CHECK
	}
	if :: believes :: else -> put(me, n, i, believes) fi;
	atomic {
		if
		:: believes && (lease[me] || !RECORD_IN_TIME) ->
			record_listed = record_listed && !over;
			record = true; kept = true; over = false;
			CHECK
		:: else -> believes = believes && !FORGETS; over = false; goto begin
		fi
	}
	drop_lease(me, i) /* if it is killed, that happens some time later */
}

inline read_leases(i, c)
{
	d_step {
		guarded_record = WAITS && (before_record[0] || before_record[1] || before_record[2]);
		for (i : 0 .. NAMES - 1) {
			guarded[i] = false;
			orphan[i] = pack[i] && !idx[i];
			for (c : 0 .. CLIENTS - 1) {
				guarded[i] = guarded[i] || (WAITS && before[c].p[i]);
				orphan[i] = orphan[i] && !(ORPHANS_WAIT && wrote[c].p[i])
			}
		}
		i = 0; c = 0
	}
}

/* A record needs one copy that isn't condemned; where there is none, all that there are. */
inline look(i, keeper)
{
	if :: young = true :: young = false fi; /* to a collector that slept since it looked for roots */
	d_step {
		dead_record = record && !kept && !young;
		keeper = NAMES;
		for (i : 0 .. NAMES - 1) {
			if :: idx[i] && !listed[i] && keeper == NAMES -> keeper = i :: else fi
		}
		for (i : 0 .. NAMES - 1) {
			dead[i] = idx[i] && (!record || !(kept || young) || (keeper < NAMES && keeper != i))
		}
		i = 0; keeper = 0; young = false
	}
}

inline publish(i, c)
{
	d_step {
		for (i : 0 .. NAMES - 1) {
			if
			:: dead[i] && !listed[i] ->
				for (c : 0 .. CLIENTS - 1) { before[c].p[i] = lease[c] }
			:: else
			fi;
			listed[i] = dead[i] && (STAYS_LISTED || !goes[i])
		}
		if
		:: dead_record && !record_listed ->
			for (c : 0 .. CLIENTS - 1) { before_record[c] = lease[c] }
		:: else
		fi;
		record_listed = dead_record;
		i = 0; c = 0;
		CHECK
	}
}

/* Not if somebody has published it again. */
inline remove_record()
{
	if :: goes_record && record_listed -> record = false; record_listed = false :: else fi;
	goes_record = false
}

/* One at a time: it holds a lock, and one that was held up for too long stops. */
active proctype collector()
{
	bool guarded[NAMES], orphan[NAMES], dead[NAMES], goes[NAMES], young;
	bool guarded_record, dead_record, goes_record;
	byte i, c;

round:
	atomic { if :: LEASES_FIRST -> read_leases(i, c) :: else -> look(i, c) fi }
	atomic {
		if :: LEASES_FIRST -> look(i, c) :: else -> read_leases(i, c) fi;
		goes_record = dead_record && !guarded_record && record_listed;
		for (i : 0 .. NAMES - 1) {
			goes[i] = dead[i] && !guarded[i] && (listed[i] || !TWICE) &&
				(!HELD || !dead_record || goes_record);
			guarded[i] = false
		}
		guarded_record = false;
		i = 0
	}
	publish(i, c);
	dead_record = false;
	atomic {
		if :: RECORD_GOES_FIRST -> remove_record() :: else fi
	}
	do
	:: atomic {
			i < NAMES && goes[i] ->
			if :: INDEX_GOES_FIRST -> idx[i] = false :: else -> pack[i] = false fi;
			CHECK
		}
		atomic { idx[i] = false; pack[i] = false; goes[i] = false; i++; CHECK }
	:: atomic { i < NAMES && orphan[i] -> pack[i] = false; orphan[i] = false; i++; CHECK }
	:: atomic { i < NAMES && !goes[i] && !orphan[i] -> i++ }
	:: atomic { (true) -> break } /* all is done; or it died, and another one begins */
	od;
	atomic {
		remove_record();
		for (i : 0 .. NAMES - 1) { dead[i] = false; goes[i] = false; orphan[i] = false }
		i = 0;
		goto round
	}
}

/* It knows the index of the first pack. Gone, not condemned, the pack is there: it seems lost. */
active proctype verifier()
{
	byte i, n;
	bool done;

	atomic { !idx[0] -> take_lease(VERIFIER, i) }
	if
	:: listed[0] -> goto out
	:: !listed[0]
	fi;
	if
	:: !pack[0] -> goto out
	:: pack[0] && NEW_NAMES -> put(VERIFIER, n, i, done)
	:: atomic { pack[0] && !NEW_NAMES -> skip }; atomic { idx[0] = true; CHECK }
	fi;
out:
	drop_lease(VERIFIER, i)
}

init {
	atomic {
		if
		:: pack[0] = true; idx[0] = true
		:: pack[0] = true; idx[0] = true; listed[0] = true
		:: skip
		fi;
		run writer(0);
		run writer(1)
	}
}
