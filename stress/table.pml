/*
 * table.pml: a model of how keys get and lose the slots of a table (table.go), for the
 * model checker spin. spin_test.go runs it through every interleaving:
 *
 *	spin -a table.pml && gcc -O1 -DSAFETY -DCOLLAPSE -o pan pan.c && ./pan -m1000
 *
 * with -D for each macro below that is to be other than it is.
 *
 * What it covers. Two sets of one slot, each in a stripe of its own. Two keys, A and B,
 * whose sets these are, for B in the opposite order, and others (C) that own slots and do
 * nothing more. The two are the first two sets of a key, whose third one has no room;
 * or, with SPILL, one stands for the first two, and the other is the third. Each process
 * makes one call, and each of its steps makes one access to memory that others share, so
 * that there is nothing that a goroutine cannot be interrupted in. (Two steps in one are
 * latest.raise, which takes effect at one of its own, and a release of locks with the
 * access before it, since nobody can tell but by waiting.) A process that has read the
 * clock may go on at any later time.
 *
 *	Take    TokenBucket.take with store.find, create (refuse with REFUSE), insert, owned,
 *	        notBefore, claimVacant (claimFullest with EVICT) and claim, and left and again
 *	Refund  TokenBucket.update; Peek reads the same way, and finds no bucket where Refund
 *	        finds nothing to do
 *	Sweep   sweepSet of one of the sets
 *
 * The word is that of packed.go, with a unit of one token: credit with its bias, and
 * last in steps of STEP units. The clock shows 0 to TICKS; it moves on when it is read,
 * since nobody can tell when it does otherwise.
 *
 * A slot is chosen out of the vacant ones at will, so that it does not matter how
 * claimVacant chooses; and with EVICT any slot that may be evicted, vacant ones or not.
 *
 * What it leaves out. Shared buckets and the keys that are bound to them: a key that
 * finds no slot is refused. WithStartEmpty; times that go back or wrap around; tags that
 * are equal. More than the processes, slots and ticks that there are: that is, whatever
 * takes more than these to go wrong.
 *
 * What is checked. ghost[k] is the word that the bucket of k would have if no bucket
 * were ever forgotten: what k was granted and refunded, whatever became of its slots.
 *
 *	promise    A grant takes what the ghost holds at max(clock read, last), and a new
 *	           bucket is full when the ghost is, not earlier. A token bucket that is
 *	           charged with what is granted, and always holds it, is the same as
 *	           grants <= capacity + rate x (t1-t0) for all t0 and t1.
 *	one slot   A key owns at most one slot.
 *	tenure     A swap that succeeds, of a take or a refund, is on a word that was loaded
 *	           when the slot was the key's, and has been since.
 *	never less A denial is right by its clock read at some instant of the call. A key is
 *	           refused, or a refund void, only if the key had no bucket at some instant
 *	           of the call, or a full one.
 *	locks      No order of steps ends with a process that waits for a lock.
 */

#ifndef CAPACITY
#define CAPACITY 1
#endif
#ifndef TICKS
#define TICKS 2
#endif
#ifndef STEP
#define STEP 1
#endif
#ifndef TAKES_A
#define TAKES_A 2
#endif
#ifndef TAKES_B
#define TAKES_B 1
#endif
#ifndef REFUNDS_A
#define REFUNDS_A 0
#endif
#ifndef SWEEPS
#define SWEEPS 0
#endif
#define CALLS (TAKES_A+TAKES_B+REFUNDS_A)

/* A key is its tag. */
#define A 1
#define B 2
#define C 3
#define SET_A(k) ((k)-1)
#define SET_B(k) (2-(k))

#define MAX(x,y) ((x) > (y) -> (x) : (y))
#define MIN(x,y) ((x) < (y) -> (x) : (y))

/* packed.go */
#define REMOVED 0
#define LASTS (TICKS/STEP+1)
#define EMPTY STEP
#define FULL (CAPACITY+STEP)
#define PACK(credit,t) (((credit)-(t)%STEP)*LASTS+(t)/STEP)
#define CREDIT(w) ((w)/LASTS)
#define LAST(w) ((w)%LASTS*STEP)
#define AT(w,t) ((t) < LAST(w) -> CREDIT(w) : MIN(CREDIT(w)+(t)-LAST(w),FULL))
#define INSTANT(w,t) MAX(t,LAST(w))
#define REFILLED(w,t) ((t) >= LAST(w) && CREDIT(w)+(t)-LAST(w) >= FULL)
#ifndef SAME_STEP
#define VACANT(w,t) ((t) >= LAST(w)+STEP && REFILLED(w,t))
#else
#define VACANT(w,t) REFILLED(w,t)
#endif
#define CONCLUSIVE(w,t) (STEP == 1 || (t) >= LAST(w)+STEP)

/* The table. */
byte tag[2], word[2], removedAt[2];
bit lock[2], spilled[2];

byte clock;
byte unread = CALLS+SWEEPS; /* processes that have yet to read the clock */

/* What the assertions need to know. */
byte ghost[4];
byte level; /* for within a step */
byte i;     /* the same */

/* Of a call that has begun: its key, its clock read, what it costs (0 if it is a
 * refund), whether by now the answer no would be right, whether the key was without a
 * bucket, and 1 + the slot whose word it has loaded and that was the key's since. */
byte key[CALLS], ns[CALLS], cost[CALLS], held[CALLS];
bit okay[CALLS], gone[CALLS];

#if STEP > 1
/* The latest instant that a bucket has seen, which its word knows to a step only. */
byte instant[4];
#define LEVEL(k,t) AT(ghost[k],MAX(t,instant[k]))
#define SEES(k,t) instant[k] = MAX(t,instant[k])
#else
#define LEVEL(k,t) AT(ghost[k],t)
#define SEES(k,t) skip
#endif

#define OKAY(p) (cost[p] > 0 -> LEVEL(key[p],ns[p]) < EMPTY+cost[p] : LEVEL(key[p],ns[p]) == FULL)
#define OWNS(k,s) (tag[s] == (k) && word[s] != REMOVED)

#ifndef NO_LOCK
#define LOCK_IF(c,s) atomic { (c) && lock[s] == 0 -> lock[s] = 1 }
#else
#define LOCK_IF(c,s) (c)
#endif
#define LOCK(s) LOCK_IF(1,s)
#ifdef LOCK_ORDER
#define FIRST_OF(k) SET_A(k)
#else
#define FIRST_OF(k) 0
#endif
#if defined(SPILL)
#define LOCK_SETS(k) \
	if \
	:: LOCK_IF(reach == 0,SET_A(k)) \
	:: LOCK_IF(reach == 1,FIRST_OF(k)); LOCK(1-FIRST_OF(k)) \
	fi
#define UNLOCK_SETS(k) lock[SET_A(k)] = 0; lock[SET_B(k)] = (reach == 0 -> lock[SET_B(k)] : 0); reach = 0
#elif defined(ONE_LOCK)
#define LOCK_SETS(k) LOCK(SET_A(k))
#define UNLOCK_SETS(k) lock[SET_A(k)] = 0
#else
#define LOCK_SETS(k) LOCK(FIRST_OF(k)); LOCK(1-FIRST_OF(k))
#define UNLOCK_SETS(k) lock[0] = 0; lock[1] = 0
#endif

/* readClock sets t. When nobody will read the clock again, what it shows is forgotten. */
inline readClock(t) {
	do
	:: clock < TICKS -> clock++
	:: break
	od;
	t = clock;
#if STEP == 1
	unread--;
	if
	:: unread == 0 -> clock = 0
	:: else
	fi
#endif
}

/* BEGIN is the clock read with which a call begins, and RETURN its end. */
#define BEGIN(me,k) \
	readClock(ns[me]); \
	key[me] = k; \
	okay[me] = OKAY(me); \
	gone[me] = !OWNS(k,0) && !OWNS(k,1)

#define RETURN(me) \
	key[me] = 0; ns[me] = 0; cost[me] = 0; held[me] = 0; okay[me] = 0; gone[me] = 0

/* CHARGED makes w the word of a key's ghost as of the instant t, and notes which calls
 * may be denied by it. */
#define CHARGED(k,w,t) ghost[k] = w; SEES(k,t); note(k)

inline note(k) {
	do
	:: i < CALLS ->
		if
		:: key[i] == k && OKAY(i) -> okay[i] = 1
		:: else
		fi;
		i++
	:: else -> break
	od;
	i = 0
}

/* removes is the claim of slot s, whose word is old, at the time t. What the bucket lacks
 * is forgiven. */
inline removes(t) {
	do
	:: i < CALLS ->
		if
		:: key[i] == tag[s] -> gone[i] = 1
		:: else
		fi;
		if
		:: held[i] == s+1 -> held[i] = 0
		:: else
		fi;
		i++
	:: else -> break
	od;
	i = 0;
	word[s] = REMOVED;
#ifdef EVICT
	if
	:: !VACANT(old,t) ->
		CHARGED(tag[s], PACK(FULL,t), t)
	:: else
	fi
#endif
}

/* IF_SPILLED is what is done about the third set. */
#ifdef SPILL
#define IF_SPILLED(k,then) if :: spilled[SET_A(k)] -> then :: else fi
#else
#define IF_SPILLED(k,then) then
#endif

/* FIND is table.find: s is the slot that has the tag of k, and none is where to go on if
 * there is no such slot. */
#define FIND(k,s,none) \
	atomic { if :: tag[SET_A(k)] == k -> s = SET_A(k); goto load :: else fi }; \
	IF_SPILLED(k, atomic { if :: tag[SET_B(k)] == k -> s = SET_B(k); goto load :: else fi }); \
	goto none

/* OWNED is table.owned: if k owns a slot, that is s, and found is where to go on. */
#define OWNED(k,s,found) \
	OWNED_IN(SET_A(k), k, s, found); \
	IF_SPILLED(k, OWNED_IN(SET_B(k), k, s, found))
#define OWNED_IN(set,k,s,found) \
	if \
	:: tag[set] == k -> \
		atomic { if :: word[set] != REMOVED -> s = set; found :: else fi } \
	:: else \
	fi

/* NOT_BEFORE is table.notBefore. */
#define NOT_BEFORE(k,from) \
	from = MAX(ns[me],removedAt[SET_A(k)]); \
	IF_SPILLED(k, from = MAX(from,removedAt[SET_B(k)]))

/* Only when it has looked at all of its sets for a vacant slot does a key evict another. */
#ifdef SPILL
#define ALL_SETS (reach == 1)
#else
#define ALL_SETS 1
#endif

proctype Take(byte me, k) {
	byte s, old, from;
#if STEP > 1
	byte seen;
#endif
#ifdef SPILL
	bit reach; /* 1: the third set as well */
#endif

	atomic {
		if
		:: cost[me] = 1
#if CAPACITY > 1
		:: cost[me] = CAPACITY
#endif
		fi;
		BEGIN(me,k)
	}
	FIND(k, s, create);
load:
	atomic {
		old = word[s];
		held[me] = (OWNS(k,s) -> s+1 : 0);
		if
		:: old == REMOVED -> s = 0; goto create
		:: else
		fi
	}
	atomic {
#ifndef NO_RECHECK
		if /* left */
		:: tag[s] != k -> s = 0; old = 0; held[me] = 0; goto create
		:: else
		fi;
#endif
		if
		:: AT(old,ns[me]) >= EMPTY+cost[me] -> goto grant
		:: else
		fi
	}
	/* denied */
	atomic {
#ifndef NO_RELOAD
		if /* again */
		:: word[s] != old -> old = 0; held[me] = 0; goto load
		:: else
		fi;
#endif
#if STEP > 1 && !defined(NO_SECOND_READ)
		if
		:: !CONCLUSIVE(old,ns[me]) && old != seen -> seen = old; goto readAgain
		:: else
		fi;
		seen = 0;
#endif
		assert(okay[me]); /* never less */
		s = 0; old = 0; RETURN(me);
		goto end
	}
#if STEP > 1
readAgain:
	atomic { readClock(ns[me]); okay[me] = OKAY(me); goto load }
#endif
grant:
	atomic {
#ifndef STORE_GRANT
		if
		:: word[s] != old -> old = 0; held[me] = 0; goto load
		:: else
		fi;
#endif
		d_step {
			level = AT(ghost[k],INSTANT(old,ns[me]));
			assert(level >= EMPTY+cost[me]); /* promise */
			level = 0;
			assert(held[me] == s+1); /* tenure */
			assert(old == ghost[k]);
			word[s] = PACK(AT(old,ns[me])-cost[me],INSTANT(old,ns[me]));
			CHARGED(k, word[s], INSTANT(old,ns[me]));
			s = 0; old = 0; RETURN(me)
		};
		goto end
	}

create:
#ifdef REFUSE
	/* It takes no lock, so that a slot may be vacant by the time of the look at the other
	 * one. But at some instant from here on, a key that is refused had no bucket. */
	gone[me] = !OWNS(k,0) && !OWNS(k,1);
	NOT_BEFORE(k, from);
	atomic {
		if
		:: word[SET_A(k)] == REMOVED || VACANT(word[SET_A(k)],from) -> from = 0; goto insert
		:: else
		fi
	}
	atomic {
		if
		:: word[SET_B(k)] == REMOVED || VACANT(word[SET_B(k)],from) -> from = 0; goto insert
		:: else
		fi
	}
#ifndef REFUSE_BLIND
	OWNED(k, s, s = 0; from = 0; goto insert);
#endif
	atomic {
		assert(gone[me]); /* never less */
		from = 0; RETURN(me);
		goto end
	}
#endif

insert:
#ifdef FROM_EARLY
	NOT_BEFORE(k, from);
#endif
	LOCK_SETS(k);
#ifndef NO_LOOK
	OWNED(k, s, UNLOCK_SETS(k); goto load);
#endif
#if defined(SPILL) && !defined(NO_FLAG) && !defined(FLAG_LATE)
	atomic { if :: reach == 1 -> spilled[SET_A(k)] = 1 :: else fi };
#endif
#ifndef FROM_EARLY
	NOT_BEFORE(k, from);
#endif
claimVacant:
	atomic {
#ifdef SPILL
		s = SET_A(k);
#else
		if
		:: s = 0
		:: s = 1
		fi;
#endif
		old = word[s];
		if
		:: old == REMOVED -> goto retag
		:: old != REMOVED && VACANT(old,from) -> goto claim
#ifdef EVICT
		:: old != REMOVED && ALL_SETS && from >= LAST(old)+STEP -> goto claim
#endif
		:: old != REMOVED && !VACANT(old,from) ->
#ifdef SPILL
			if
			:: reach == 0 -> old = 0; s = 0; from = 0; UNLOCK_SETS(k); reach = 1; goto insert
			:: else
			fi;
#endif
			old = 0; s = 1-s
		fi
	}
#ifdef FLAG_LATE
	spilled[SET_A(k)] = 1;
#endif
	atomic {
		old = word[s];
		if
		:: old == REMOVED -> goto retag
		:: old != REMOVED && VACANT(old,from) -> goto claim
#ifdef EVICT
		:: old != REMOVED && from >= LAST(old)+STEP -> goto claim
#endif
		:: old != REMOVED && !VACANT(old,from) ->
			assert(gone[me]); /* never less */
			s = 0; old = 0; from = 0; RETURN(me); UNLOCK_SETS(k);
			goto end
		fi
	}
claim:
#if !defined(NO_RAISE) && !defined(RAISE_LATE)
	removedAt[s] = MAX(removedAt[s],from);
#endif
#ifdef TAG_FIRST
	tag[s] = k;
#endif
	atomic {
#ifndef STORE_CLAIM
		if
		:: word[s] != old -> old = 0; goto claimVacant
		:: else
		fi;
#endif
		d_step { removes(from); old = 0 }
	}
#ifdef RAISE_LATE
	removedAt[s] = MAX(removedAt[s],from);
#endif
retag:
	tag[s] = k;
	/* own */
	atomic {
		d_step {
			assert(!OWNS(k,1-s)); /* one slot */
			assert(tag[s] == k && word[s] == REMOVED);
			level = AT(ghost[k],from);
			assert(level == FULL && from >= LAST(ghost[k])); /* promise */
			level = 0;
			word[s] = PACK(FULL-cost[me],from);
			CHARGED(k, word[s], from);
			s = 0; from = 0; RETURN(me); UNLOCK_SETS(k)
		};
		goto end
	}
end:
	false
}

proctype Refund(byte me, k) {
	byte s, old;

	atomic { BEGIN(me,k) }
	FIND(k, s, nothing);
load:
	atomic {
		old = word[s];
		held[me] = (OWNS(k,s) -> s+1 : 0);
		if
		:: old == REMOVED -> goto nothing
		:: else
		fi
	}
	atomic {
#ifndef NO_RECHECK
		if /* left */
		:: tag[s] != k -> goto nothing
		:: else
		fi;
#endif
		if /* forgettable */
		:: REFILLED(old,ns[me]) -> goto nothing
		:: else
		fi
	}
	atomic {
		if
		:: word[s] != old -> old = 0; held[me] = 0; goto load
		:: else
		fi;
		d_step {
			assert(held[me] == s+1); /* tenure */
			assert(old == ghost[k]);
			word[s] = PACK(MIN(AT(old,ns[me])+1,FULL),INSTANT(old,ns[me]));
			CHARGED(k, word[s], INSTANT(old,ns[me]));
			s = 0; old = 0; RETURN(me)
		};
		goto end
	}
nothing:
	atomic {
		assert(okay[me] || gone[me]); /* never less */
		s = 0; old = 0; RETURN(me)
	}
end:
	false
}

proctype Sweep() {
	byte s, old, t;

	atomic {
		if
		:: s = 0
		:: s = 1
		fi;
		readClock(t)
	}
	atomic {
		old = word[s];
		if
		:: old == REMOVED || !VACANT(old,t) -> s = 0; old = 0; t = 0; goto end
		:: else
		fi
	}
#ifndef SWEEP_UNLOCKED
	LOCK(s);
#endif
#if !defined(NO_RAISE) && !defined(RAISE_LATE)
	removedAt[s] = MAX(removedAt[s],t);
#endif
	atomic {
		if
		:: word[s] != old -> goto unlock
		:: else
		fi;
		d_step { removes(t) }
	}
#ifdef RAISE_LATE
	removedAt[s] = MAX(removedAt[s],t);
#endif
	tag[s] = 0;
unlock:
	atomic {
#ifndef SWEEP_UNLOCKED
		lock[s] = 0;
#endif
		s = 0; old = 0; t = 0
	}
end:
	false
}

/* ownerOf gives slot s an owner to begin with, or none. */
inline ownerOf(s) {
	if
	:: skip
	:: tag[1-s] != A -> tag[s] = A
	:: tag[1-s] != B -> tag[s] = B
	:: tag[s] = C
	fi;
	if
	:: tag[s] != 0 ->
#ifdef SPILL
		if
		:: tag[s] <= B && s == SET_B(tag[s]) -> spilled[1-s] = 1
		:: else
		fi;
#endif
		if
		:: word[s] = PACK(FULL-1,0)
#if CAPACITY > 1
		:: word[s] = PACK(FULL-CAPACITY,0)
#endif
		fi;
		ghost[tag[s]] = word[s]
	:: else
	fi
}

init {
	byte p;

	atomic {
		ghost[A] = PACK(FULL,0);
		ghost[B] = PACK(FULL,0);
		ownerOf(0);
		ownerOf(1);
		for (p : 0 .. CALLS-1) {
			if
			:: p < TAKES_A -> run Take(p, A)
			:: p >= TAKES_A && p < TAKES_A+TAKES_B -> run Take(p, B)
			:: else -> run Refund(p, A)
			fi
		}
		p = 0;
#if SWEEPS > 0
		run Sweep();
#endif
#if SWEEPS > 1
		run Sweep();
#endif
	}
}
