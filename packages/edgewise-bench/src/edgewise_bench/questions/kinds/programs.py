"""Kinds of question whose answer is a program: a function, a pattern, a query. It is run.

Of public tasks, `completions` reads those of a file that has the form of HumanEval's.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from edgewise.calibrate.rows import Question, is_right
from edgewise_bench.questions.kinds.recall import Kind
from edgewise_bench.questions.sandbox import code_in, passes, pattern_in


@dataclass(frozen=True, slots=True, kw_only=True)
class Task(Question):
    """A question whose answer is run. `tests` is a program that finds the answer as ANSWER."""

    tests: str = ""
    form: str = "python"


_FIND: dict[str, Callable[[str], str]] = {
    "python": lambda text: code_in(text, "def|import|from|class"),
    "sql": lambda text: code_in(text, "select|with"),
    "pattern": pattern_in,
}


def is_done(question: Question, text: str) -> bool:
    """Whether an answer is right; a program is run."""
    if isinstance(question, Task):
        return bool(text.strip()) and passes(_FIND[question.form](text), question.tests)
    return is_right(question, text)


# -- functions -------------------------------------------------------------------------------------

_FUNCTIONS = (
    ("returns the sum of the even numbers of a list", "sum_even", "([1, 2, 3, 4])", "6"),
    ("counts the vowels (a, e, i, o, u) of a text, in either case", "vowels", "('Education')", "5"),
    ("tells whether a text reads the same backwards", "is_palindrome", "('level')", "True"),
    ("reverses the order of the words of a sentence", "turn", "('one two three')",
     "'three two one'"),
    ("returns the second largest different number of a list", "second", "([5, 1, 5, 4])", "4"),
    ("removes duplicates from a list and keeps the order", "unique", "([3, 1, 3, 2, 1])",
     "[3, 1, 2]"),
    ("returns the factorial of n", "factorial", "(6)", "720"),
    ("returns the n-th Fibonacci number, with fib(1) = fib(2) = 1", "fib", "(10)", "55"),
    ("tells whether n is a prime number", "is_prime", "(91)", "False"),
    ("returns the greatest common divisor of two numbers", "gcd", "(84, 36)", "12"),
    ("flattens a list of lists by one level", "flatten", "([[1, 2], [], [3]])", "[1, 2, 3]"),
    ("returns how often each word occurs in a text, as a dict", "count_words", "('a b a')",
     "{'a': 2, 'b': 1}"),
    ("turns a temperature in Fahrenheit into Celsius, rounded to one place", "celsius", "(212)",
     "100.0"),
    ("returns the longest word of a sentence, the first of them if there are several", "longest",
     "('we like apples and cherry')", "'apples'"),
    ("returns a list with the squares of the numbers from 1 to n", "squares", "(4)",
     "[1, 4, 9, 16]"),
    ("tells whether two words are anagrams of each other", "anagrams", "('listen', 'silent')",
     "True"),
    ("returns the digits of a whole number, added up", "digit_sum", "(9047)", "20"),
    ("merges two sorted lists into one sorted list", "merge", "([1, 4], [2, 3, 5])",
     "[1, 2, 3, 4, 5]"),
    ("returns the number of days of a year, leap years considered", "days", "(1900)", "365"),
    ("splits a list into pieces of n, the last of which may be shorter", "pieces",
     "([1, 2, 3, 4, 5], 2)", "[[1, 2], [3, 4], [5]]"),
    ("writes a whole number from 1 to 20 in Roman numerals", "roman", "(14)", "'XIV'"),
    ("returns the median of a list of numbers", "median", "([9, 1, 4, 6])", "5"),
    ("moves all zeros of a list to its end and keeps the order of the rest", "zeros",
     "([0, 1, 0, 3])", "[1, 3, 0, 0]"),
    ("turns 'snake_case' into 'camelCase'", "camel", "('my_long_name')", "'myLongName'"),
    ("returns the common beginning of two texts", "prefix", "('interview', 'internet')", "'inter'"),
    ("swaps keys and values of a dict", "swap", "({'a': 1, 'b': 2})", "{1: 'a', 2: 'b'}"),
    ("returns the numbers that occur in both lists, sorted and without duplicates", "both",
     "([3, 1, 3, 2], [3, 2, 5])", "[2, 3]"),
    ("moves every letter of a lower-case text by n places in the alphabet, and leaves other"
     " characters alone", "caesar", "('xyz a', 3)", "'abc d'"),
    ("adds two matrices given as lists of rows", "add", "([[1, 2]], [[3, 4]])", "[[4, 6]]"),
    ("returns how many minutes lie between two times such as '09:15' and '11:05' of one day",
     "minutes", "('09:15', '11:05')", "110"),
)  # fmt: skip
_ASKING = (
    "Write a Python function {name} that {what}. Only the code, please.",
    "I need a Python function called {name}: it {what}. Just code, no explanation.",
    "def {name}(...) that {what}. Write it in Python, code only.",
)


def functions(random: Random) -> Iterator[Question]:
    for what, name, given, result in _FUNCTIONS:
        yield Task(
            kind="functions",
            prompt=random.choice(_ASKING).format(name=name, what=what),
            accepted=("",),
            tests=f"names = {{}}\nexec(ANSWER, names)\nassert names[{name!r}]{given} == {result}",
        )


# -- patterns --------------------------------------------------------------------------------------

_PATTERNS = (
    ("a whole number with an optional minus sign", "12 -7 0", "1.5 a3 --2"),
    ("a date such as 2026-11-19", "2026-11-19 1999-01-02", "26-11-19 2026/11/19 2026-1-2"),
    ("a time of day in 24 hours such as 09:05 or 23:59", "09:05 23:59 00:00", "24:00 12:60 9:5"),
    ("a hexadecimal colour such as #1a2B3c", "#1a2B3c #FFFFFF", "1a2B3c #12345 #12345g"),
    ("a word that begins with a capital letter and goes on in lower case", "Hello Paris",
     "hello HELLO H3llo"),
    ("exactly five digits", "12345 00000", "1234 123456 12a45"),
    ("a text without any digit", "hello a-b", "h3llo 7"),
    ("a Python identifier made of letters, digits and underscores that does not begin with a"
     " digit", "a_1 _x name", "1a a-b a.b"),
    ("an amount of euros with two decimals such as 12.50", "12.50 0.99 100.00", "12.5 12 .50"),
    ("a simple e-mail address such as ada@post.example", "ada@post.example b.c@d.org",
     "ada@ @post ada.post"),
    ("a text that begins and ends with the same letter, of at least two letters", "anna level",
     "ab hello"),
    ("a file name that ends in .csv", "a.csv data_1.csv", "a.txt csv a.csv.gz"),
    ("three letters in capitals followed by three digits", "ABC123 XYZ000", "AB123 abc123 ABC1234"),
    ("an IPv4-like address: four groups of one to three digits between dots", "10.0.0.1 8.8.8.8",
     "10.0.0 1.2.3.4.5 a.b.c.d"),
    ("the word yes or the word no, in small letters", "yes no", "YES yesno maybe"),
    ("a number with thousands separated by commas such as 1,234,567", "1,234,567 12,000",
     "1,23 ,123 1,2345"),
    ("a phone number such as 030-123456: three digits, a hyphen, six digits", "030-123456",
     "30-123456 030123456 030-12345"),
    ("a text of at least eight characters", "12345678 longenough", "short 1234567"),
    ("a name and a surname with one space, each with a capital first letter", "Ada Moss|Ivo Park",
     "ada Moss|Ada|Ada  Moss"),
    ("an opening tag such as <b> or <div>, made of small letters", "<b> <div>", "</b> <B> div"),
)  # fmt: skip
_PATTERN_ASKS = (
    "Give me a regular expression (Python) that fully matches {what}. Only the pattern.",
    "Regex for {what}? It should match the whole text. Only the regex, please.",
)


def patterns(random: Random) -> Iterator[Question]:
    for what, fits, fails in _PATTERNS:
        split = "|" if "|" in fits else " "
        yield Task(
            kind="patterns_to_write",
            prompt=random.choice(_PATTERN_ASKS).format(what=what),
            accepted=("",),
            form="pattern",
            tests=(
                "import re\nfind = re.compile(ANSWER).fullmatch\n"
                f"assert all(map(find, {fits.split(split)!r}))\n"
                f"assert not any(map(find, {fails.split(split)!r}))"
            ),
        )


# -- queries ---------------------------------------------------------------------------------------

_TABLES = """
CREATE TABLE staff (id INTEGER, name TEXT, team TEXT, salary INTEGER, town TEXT);
INSERT INTO staff VALUES (1, 'Ada', 'sales', 3200, 'Bern'), (2, 'Bruno', 'sales', 2900, 'Graz'),
 (3, 'Carla', 'code', 4100, 'Bern'), (4, 'Dmitri', 'code', 3900, 'Oslo'),
 (5, 'Elif', 'code', 4100, 'Porto'), (6, 'Farid', 'design', 3300, 'Bern');
CREATE TABLE orders (id INTEGER, staff_id INTEGER, item TEXT, amount INTEGER);
INSERT INTO orders VALUES (1, 1, 'lamp', 3), (2, 1, 'desk', 1), (3, 2, 'lamp', 5),
 (4, 6, 'chair', 2), (5, 6, 'lamp', 1);
"""
_SCHEMA = "staff(id, name, team, salary, town) and orders(id, staff_id, item, amount)"
_QUERIES = (
    ("the names of all who live in Bern", "select name from staff where town='Bern'"),
    ("the number of people in the team code", "select count(*) from staff where team='code'"),
    ("the highest salary", "select max(salary) from staff"),
    ("the names of those who earn more than 3500", "select name from staff where salary>3500"),
    ("the average salary of each team, with the team",
     "select team, avg(salary) from staff group by team"),
    ("all towns, each once", "select distinct town from staff"),
    ("the total amount of lamps ordered", "select sum(amount) from orders where item='lamp'"),
    ("the names of those who have ordered a lamp",
     "select name from staff join orders on staff.id=staff_id where item='lamp'"),
    ("the names of those who have ordered nothing",
     "select name from staff where id not in (select staff_id from orders)"),
    ("the teams with more than one person",
     "select team from staff group by team having count(*)>1"),
    ("the names of all staff in alphabetical order, backwards",
     "select name from staff order by name desc"),
    ("the name of the person with the lowest salary",
     "select name from staff order by salary limit 1"),
    ("each item and how often it was ordered (number of orders)",
     "select item, count(*) from orders group by item"),
    ("the names of those whose name begins with C or D",
     "select name from staff where name like 'C%' or name like 'D%'"),
    ("how many different items there are in orders", "select count(distinct item) from orders"),
    ("the names of those who earn between 3000 and 4000",
     "select name from staff where salary between 3000 and 4000"),
    ("the three highest salaries, highest first",
     "select salary from staff order by salary desc limit 3"),
    ("each town and the number of people there",
     "select town, count(*) from staff group by town"),
    ("the sum of all salaries of the team sales",
     "select sum(salary) from staff where team='sales'"),
    ("the names of those who earn more than the average",
     "select name from staff where salary>(select avg(salary) from staff)"),
)  # fmt: skip
_QUERY_ASKS = (
    "There are two SQL tables: {schema}. Write a query for {what}. Only the SQL.",
    "SQL, tables {schema}; orders.staff_id is staff.id. I want {what}. Just the query, please.",
)


def queries(random: Random) -> Iterator[Question]:
    for what, gold in _QUERIES:
        ordered = "order by" in gold
        tests = (
            "import sqlite3\nbase = sqlite3.connect(':memory:')\n"
            f"base.executescript({_TABLES!r})\n"
            "said = base.execute(ANSWER.strip().rstrip(';')).fetchall()\n"
            f"gold = base.execute({gold!r}).fetchall()\n"
            + ("assert said == gold" if ordered else _SAME_ROWS)
        )
        yield Task(
            kind="queries",
            prompt=random.choice(_QUERY_ASKS).format(schema=_SCHEMA, what=what),
            accepted=("",),
            form="sql",
            tests=tests,
        )


# In any order, and with the columns in any order; who was asked for may be named twice.
_SAME_ROWS = (
    "tidy = lambda rows: {tuple(sorted(map(str, row))) for row in rows}\n"
    "assert tidy(said) == tidy(gold)"
)


# -- public tasks ----------------------------------------------------------------------------------


def completions(path: Path) -> Iterator[Task]:
    """Tasks of a file that has the form of HumanEval's: prompt, entry_point, test."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for row in map(json.loads, file):
            begun, name = row["prompt"], row["entry_point"]
            yield Task(
                kind="completions",
                prompt=f"Complete this Python function. Only the code.\n\n{begun}",
                accepted=("",),
                tests=(
                    f"begun, names = {begun!r}, {{}}\n"
                    f"whole = ANSWER if 'def {name}' in ANSWER else begun + ANSWER\n"
                    "head = begun[: begun.index('def ')]\n"
                    "exec(head + whole, names)\n"
                    f"exec({row['test']!r}, names)\nnames['check'](names[{name!r}])"
                ),
            )


KINDS: dict[str, tuple[Kind, ...]] = {
    "writing functions": (functions,),
    "writing patterns": (patterns,),
    "writing queries": (queries,),
}
