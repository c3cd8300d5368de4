// Package questions answers the formula questions of Brown's CS1390 training
// assignment, each of them twice: by a closed form, and by running psim's own
// schedules through the simulator and reading memory, messages and times off
// the result. Neither way knows the other, so that they agree says something.
//
// A question is a row of data (see question): its symbols with sample values,
// the formula as text and as a function, a simulation as a function of the same
// symbols, and other values of the symbols for which the two are compared as
// well. Some wordings can be read in more than one way; the closed form takes
// the first reading, and the others are listed beside it.
package questions
