// Package dialect owns the differences between the versions of
// text-generation-inference whose clients this server speaks to: one table, a
// field per difference, a column per dialect.
//
// It says what differs, not how bytes are made: the packages of the routes read
// the fields. What is not in the table is the same in all dialects. Routes and
// request fields that came with a later version exist in all of them, because
// no client of an older one sends them.
package dialect
