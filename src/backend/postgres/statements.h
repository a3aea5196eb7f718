#pragma once

#include "backend/postgres/session.h"

namespace cohort::postgres {

// The statements of transactions. Arrays are parameters everywhere, so one statement serves any number of calls.

extern const Statement kBegin;
extern const Statement kCommit;
extern const Statement kCommitLater;  ///< The commit does not wait for the disk.
extern const Statement kRollback;
extern const Statement kNotify;
extern const Statement kNotifyNumbers;

extern const Statement kNow;
extern const Statement kHeld;
extern const Statement kBoots;
extern const Statement kBootsOfClaims;
extern const Statement kBootsForUpdate;
extern const Statement kGroups;
extern const Statement kGroupsForUpdate;
extern const Statement kGroupsOfTasks;
extern const Statement kLockTasks;
extern const Statement kTasksForUpdate;
extern const Statement kLockTasksOfBoots;
extern const Statement kTasksOfBoots;
extern const Statement kOwnerless;
extern const Statement kLatePending;
extern const Statement kExisting;
extern const Statement kRefused;
extern const Statement kLettersThere;
extern const Statement kClaimed;
extern const Statement kCandidates;
extern const Statement kDue;
extern const Statement kLooks;
extern const Statement kBodies;
extern const Statement kMakeGroups;

extern const Statement kInsertTasks;
extern const Statement kUpdateTasks;
extern const Statement kUpdateBodies;
extern const Statement kPoisonBodies;
extern const Statement kInsertEvents;
extern const Statement kInsertAttempts;
extern const Statement kTrimAttempts;
extern const Statement kInsertLetters;
extern const Statement kRemoveLetters;
extern const Statement kInsertRefused;
extern const Statement kPutGroups;
extern const Statement kInsertBoots;
extern const Statement kMarkDead;
extern const Statement kMarkBack;
extern const Statement kPutNumbers;
extern const Statement kAddHeld;

}  // namespace cohort::postgres
