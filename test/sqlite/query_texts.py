"""Writes random texts of columnar queries over the arrays of query_arrays.py, by the grammar that docs/explained/query-rules.md
describes, and says of each result how exactly it must agree with a view of the same text.

Expressions have static types, and integers carry the interval of their values: by it the writer knows whether an operation can
leave 64 bits. Parentheses are left out, where precedence allows, most of the time.
"""
import copy
import math
import re

from query_arrays import DATE, INT, OPAQUE, REAL, TEXT, UNSIGNED

LEAST, GREATEST = -2**63, 2**63 - 1
OR, AND, NOT, EQUAL, LESS, BITS, SUM, PRODUCT, JOINED, UNARY, ATOM = range(1, 12)   # strengths of operators
DATE_FORMATS = ["%m", "%d", "%H", "%j", "%w", "%Y", "%Y-%m", "%W", "%s"]


class Expr:
    def __init__(self, sql, kind, strength=ATOM, low=0, high=0, column=None, risky=False, ulps=0, affinity=False):
        self.sql, self.kind, self.strength, self.low, self.high = sql, kind, strength, low, high
        self.column = column       # the one known column that it depends on, or None
        self.risky = risky         # an operation may leave 64 bits
        self.ulps = ulps           # libm's functions may differ so far
        self.affinity = affinity   # it is a column, whose affinity changes what it is compared with


def fits(low, high):
    return LEAST <= low and high <= GREATEST


def bare_number(sql):
    return not sql.strip("-+() x0123456789abcdef")


def quoted(text):
    return "'" + str(text).replace("'", "''") + "'"


def real_text(value):
    if math.isinf(value):
        return "9e999" if value > 0 else "-9e999"
    return repr(value)


class Item:
    """A column of the result. `how`: exact; sum (of REAL, with its argument and filter); libm; number (a value that is INTEGER or REAL); after (computed of
    other items by `template`, in which {n} stands for item n)."""

    def __init__(self, sql, how="exact", kind=None, alias=None, argument=None, where="", template=None, known=False):
        self.sql, self.how, self.kind, self.alias, self.argument, self.where, self.template, self.known = sql, how, kind, alias, argument, where, template, known

    def text(self):
        return self.sql + (f" AS {self.alias}" if self.alias else "")


class Query:
    def __init__(self, source):
        self.source, self.distinct = source, False
        self.items, self.keys, self.where, self.having, self.order, self.limit = [], [], None, None, [], ""
        self.star = None      # stands for all items
        self.groups = False   # the rows are groups
        self.ordered = False  # the order is total
        self.risky = False    # an integer may leave 64 bits, or a number may have no INTEGER

    def parts(self, more=()):
        items = [self.star] if self.star else [i.text() for i in self.items]
        found = ["SELECT" + (" DISTINCT" if self.distinct else ""), ", ".join(items + list(more)), "FROM " + self.source]
        if self.where:
            found.append("WHERE " + self.where)
        if self.keys:
            found.append("GROUP BY " + ", ".join(self.keys))
        if self.having:
            found.append("HAVING " + self.having)
        if self.order:
            found.append("ORDER BY " + ", ".join(self.order))
        return found + ([self.limit] if self.limit else [])

    def text(self, more=()):
        return " ".join(self.parts(more))

    def companions(self):
        """Returns the further columns by which sums of REAL are judged: for each, the count, the sum, and the greatest of the absolute values."""
        return [f"{f}{i.where}" for i in self.items if i.how == "sum" for f in (f"count({i.argument})", f"total(abs({i.argument}))", f"max(abs({i.argument}))")]


class Writer:
    def __init__(self, r, array, version):
        self.r, self.array, self.version = r, array, version
        self.columns = array.columns
        self.prefix = ""
        self.within_or = 0   # how many terms of OR are being written

    # ---- Pieces ----

    def chance(self, share):
        return self.r.random() < share

    def pick(self, *choices):
        return self.r.choice(choices)

    def of(self, *kinds):
        return [c for c in self.columns if c.kind in kinds]

    def name(self, column):
        sql = column.sql
        if sql[0] != '"' and self.chance(0.15):
            sql = self.pick(sql.upper(), f'"{sql}"', f"[{sql}]", f"`{sql}`")
        return self.prefix + sql if self.chance(0.3) else sql

    def wrap(self, e, strength):
        """Returns the text of an operand of an operator that binds so strongly."""
        return f"({e.sql})" if e.strength < strength or self.chance(0.1) else e.sql

    def leaf(self, column):
        low, high = (column.low, column.high) if column.kind == INT else (0, 0)
        return Expr(self.name(column), column.kind, low=low, high=high, column=column.name if column.known else None, affinity=True)

    def infix(self, a, operator, b, strength, kind, low=0, high=0):
        same = a.column if a.column == b.column or b.column is None and not self.varies(b) else None
        return Expr(f"{self.wrap(a, strength)}{self.pick(' ', ' ', '')}{operator} {self.wrap(b, strength + 1)}", kind, strength, low, high, same, a.risky or b.risky)

    def varies(self, e):
        return not getattr(e, "constant", False)

    def constant(self, sql, kind, low=0, high=0):
        e = Expr(sql, kind, low=low, high=high, strength=UNARY if sql.startswith("-") else ATOM)
        e.constant = True
        return e

    def call(self, name, arguments, kind, low=0, high=0, ulps=0):
        text = self.pick(name, name, name.upper()) + "(" + ", ".join(a.sql for a in arguments) + ")"
        return Expr(text, kind, low=low, high=high, risky=any(a.risky for a in arguments), ulps=ulps, column=arguments[0].column if len(arguments) == 1 else None)

    # ---- Literals ----

    def integer(self, small=False):
        choice = self.r.random()
        if small or choice < 0.7:
            value = self.r.randrange(-12, 60)
        else:
            value = self.pick(0, 1, 2**53, 2**53 + 1, GREATEST, 255, 127, 100, 1000) + self.pick(0, 0, -1)
        return self.constant(str(value) if self.chance(0.9) or value < 0 else f"0x{value:x}", INT, value, value)

    def real(self):
        found = [v for c in self.of(REAL) for v in c.values if isinstance(v, float)]
        if found and self.chance(0.5):
            value = self.r.choice(found)
            value = math.nextafter(value, 1e300) if self.chance(0.2) and not math.isinf(value) else value
        else:
            value = self.pick(0.0, 0.5, 2.0, 273.15, 280.0, 1.5, 100.0, 1e3, 9007199254740992.0, 0.1, 9e999 if self.chance(0.1) else 3.0)
        return self.constant(real_text(value), REAL)

    def text_like(self, column):
        return quoted(self.r.choice(column.values)) if column.values and self.chance(0.85) else quoted(self.pick("", "a", "zz", "calm", "2020-02-29", "é"))

    # ---- What depends on one known column ----

    def known(self, column, kind=None):
        """Returns an expression of one dimension or label, which SQLite evaluates once for each value: any of its functions may be in it."""
        x, n = self.name(column), self.r.randrange(1, 9)
        if column.kind == INT:
            low, high = column.low, column.high
            divided = (-(-low // n) if low < 0 else low // n, high // n if high >= 0 else -(-high // n))
            forms = [(f"{x}/{n}", INT, PRODUCT, *divided), (f"{x} % {n}", INT, PRODUCT, -n, n), (f"{x}*2 - {n}", INT, SUM, 2 * low - n, 2 * high - n),
                     (f"({x} + {n})/{n}", INT, PRODUCT, low - 1, high + n), (f"-{x}", INT, UNARY, -high, -low), (f"abs({x})", INT, ATOM, 0, max(-low, high)),
                     (f"CAST({x}/{n}.0 AS INTEGER)", INT, ATOM, low - 1, high + 1), (f"{x} BETWEEN {n - 4} AND {n + 3}", INT, EQUAL, 0, 1),
                     (f"{x} >= {n}", INT, LESS, 0, 1), (f"{x} IN ({n}, {n + 1}, '{n + 2}')", INT, EQUAL, 0, 1), (f"length({x})", INT, ATOM, 0, 20),
                     (f"floor({x}/{n}.0)", REAL, ATOM), (f"round({x}/7.0, 1)", REAL, ATOM), (f"{x}*0.5", REAL, PRODUCT), (f"{x} + 0.25", REAL, SUM),
                     (f"printf('%03d', {x})", TEXT, ATOM), (f"{x} || ''", TEXT, JOINED), (f"CASE WHEN {x} < {n} THEN 'low' ELSE 'high' END", TEXT, ATOM),
                     (f"typeof({x})", TEXT, ATOM), (f"substr({x}, 1, 1)", TEXT, ATOM), (f"CAST({x} AS TEXT)", TEXT, ATOM), (f"CASE {x} % 3 WHEN 0 THEN 'a' WHEN 1 THEN 'b' END", TEXT, ATOM)]
        elif column.kind == DATE:
            forms = [(f"CAST(strftime('%m', {x}) AS INTEGER)", INT, ATOM, 0, 12), (f"strftime('%d', {x}) + 0", INT, SUM, 0, 31), (f"{x} >= {self.text_like(column)}", INT, LESS, 0, 1),
                     (f"CAST(strftime('%j', {x}) AS INTEGER)/{n * 4}", INT, PRODUCT, 0, 366), (f"length({x})", INT, ATOM, 0, 40), (f"strftime('%w', {x}) IN ('0', '6')", INT, EQUAL, 0, 1),
                     (f"CAST(julianday({x}) AS INTEGER)/7", INT, PRODUCT, 0, 10**6), (f"julianday({x}) - 2458849.5", REAL, SUM), (f"substr({x}, 1, 7)", TEXT, ATOM),
                     (f"strftime('{self.r.choice(DATE_FORMATS)}', {x})", TEXT, ATOM), (f"strftime('%Y-%m', {x})", TEXT, ATOM), (f"date({x}, 'start of month')", TEXT, ATOM), (f"date({x}, '+{n} days')", TEXT, ATOM),
                     (f"substr(datetime({x}), 1, 10)", TEXT, ATOM), (f"'Q' || ((strftime('%m', {x}) + 2)/3)", TEXT, JOINED), (f"time({x})", TEXT, ATOM),
                     (f"CASE WHEN substr({x}, 6, 2) IN ('12', '01', '02') THEN 'winter' ELSE 'other' END", TEXT, ATOM)]
        else:
            forms = [(f"upper({x})", TEXT, ATOM), (f"substr({x}, 1, 1)", TEXT, ATOM), (f"lower({x}) || '!'", TEXT, JOINED), (f"coalesce({x}, 'none')", TEXT, ATOM),
                     (f"replace({x}, 'e', '3')", TEXT, ATOM), (f"length({x})", INT, ATOM, 0, 20), (f"instr({x}, 'e')", INT, ATOM, 0, 20), (f"{x} IN ('calm', 'gale')", INT, EQUAL, 0, 1),
                     (f"{x} LIKE '%E%'", INT, EQUAL, 0, 1), (f"{x} IS NULL", INT, EQUAL, 0, 1), (f"{x} > 'a'", INT, LESS, 0, 1), (f"hex({x})", TEXT, ATOM), (f"unicode({x}) * 0.5", REAL, PRODUCT)]
        forms = [f for f in forms if kind is None or f[1] == kind]
        if not forms:
            return None
        form = self.r.choice(forms)
        return Expr(form[0], form[1], form[2], *(form[3:] or (0, 0)), column=column.name)

    def known_of(self, kind):
        columns = [c for c in self.columns if c.known]
        self.r.shuffle(columns)
        for column in columns:
            if self.chance(0.3) and column.kind == kind and column.kind != DATE:
                return self.leaf(column)
            found = self.known(column, kind)
            if found:
                return found
        return None

    # ---- Values of cells ----

    def number(self, depth):
        return self.whole(depth) if self.chance(0.5) else self.float(depth)

    def float(self, depth):
        """Returns an expression of type REAL."""
        columns = self.of(REAL)
        if depth <= 0 or self.chance(0.25):
            if self.chance(0.15):
                found = self.known_of(REAL)
                if found:
                    return found
            return self.leaf(self.r.choice(columns)) if columns and self.chance(0.75) else self.real()
        down = depth - 1
        choice = self.r.randrange(14)
        if choice < 5:
            operator = self.pick("+", "-", "*", "/", "-", "/", "%")
            a, b = self.float(down), (self.float(down) if self.chance(0.6) else self.whole(down))
            if self.chance(0.2):
                a, b = b, a
            if a.kind == INT and b.kind == INT:
                a = self.float(0)
            return self.infix(a, operator, b, SUM if operator in "+-" else PRODUCT, REAL)
        if choice == 5:
            return self.case(lambda: self.float(down), REAL, down)
        if choice == 6:
            return self.call(self.pick("coalesce", "ifnull"), [self.float(down), self.float(0)], REAL)
        if choice == 7:
            return self.call(self.pick("abs", "round", "floor", "ceil", "ceiling", "trunc", "round"), [self.float(down)], REAL)
        if choice == 8:
            return self.call("sqrt", [self.number(down)], REAL)
        if choice == 9:
            return self.call(self.pick("min", "max"), [self.float(down) for _ in range(self.r.randrange(2, 4))], REAL)
        if choice == 10:
            a = self.number(down)
            return Expr(f"CAST({a.sql} AS {self.pick('REAL', 'DOUBLE', 'FLOAT')})", REAL, risky=a.risky)
        if choice == 11:
            a = self.float(down)
            return Expr("-" + self.spaced(self.wrap(a, UNARY)), REAL, UNARY, risky=a.risky)
        if choice == 12:
            return self.call("nullif", [self.float(down), self.float(0)], REAL)
        return self.call("iif", [self.truth(down), self.float(down), self.float(0)], REAL)

    @staticmethod
    def spaced(text):
        """Two minus signs would begin a comment."""
        return " " + text if text.startswith("-") else text

    def libm(self, depth):
        """Returns a function of libm, whose last digits may differ."""
        one = self.pick("exp", "ln", "log10", "log", "log2", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "degrees", "radians", "pi",
                        "pow", "power", "mod", "atan2", "log2")
        if one == "pi":
            return Expr("pi()", REAL, ulps=2)
        arguments = [self.float(depth)]
        if one in ("pow", "power", "mod", "atan2"):
            arguments.append(self.number(0))
        return self.call(one, arguments, REAL, ulps=4)

    def whole(self, depth):
        """Returns an expression of type INTEGER."""
        if depth <= 0 or self.chance(0.25):
            if self.chance(0.2):
                found = self.known_of(INT)
                if found:
                    return found
            columns = self.of(INT)
            return self.leaf(self.r.choice(columns)) if columns and self.chance(0.75) else self.integer()
        down = depth - 1
        choice = self.r.randrange(15)
        if choice < 4:
            return self.arithmetic(self.whole(down), self.whole(down))
        if choice < 6:
            a, n = self.whole(down), self.integer(small=True)
            n = n if n.low else self.constant("7", INT, 7, 7)
            size = max(abs(a.low), abs(a.high))
            e = self.infix(a, self.pick("/", "%"), n, PRODUCT, INT, max(-size, LEAST), min(size, GREATEST))
            e.risky |= n.low == -1 and a.low == LEAST
            return e
        if choice == 6:
            a, b = self.number(down), self.number(0)
            return self.infix(a, self.pick("&", "|", "<<", ">>"), b, BITS, INT, LEAST, GREATEST)
        if choice == 7:
            a = self.number(down)
            return Expr("~" + self.wrap(a, UNARY), INT, UNARY, LEAST, GREATEST, risky=a.risky)
        if choice == 8:
            a = self.whole(down)
            return Expr("-" + self.spaced(self.wrap(a, UNARY)), INT, UNARY, max(-a.high, LEAST), min(-a.low, GREATEST), risky=a.risky or a.low == LEAST)
        if choice == 9:
            a = self.whole(down)
            e = self.call("abs", [a], INT, 0, min(max(abs(a.low), abs(a.high)), GREATEST))
            e.risky |= a.low == LEAST
            return e
        if choice == 10:
            return self.truth(down)
        if choice == 11:
            return self.case(lambda: self.whole(down), INT, down)
        if choice == 12:
            a = self.float(down)
            return Expr(f"CAST({a.sql} AS {self.pick('INTEGER', 'INT', 'BIGINT')})", INT, low=LEAST, high=GREATEST, risky=a.risky)
        if choice == 13:
            return self.call("sign", [self.number(down)], INT, -1, 1)
        several = [self.whole(down), self.whole(0)]
        low, high = min(a.low for a in several), max(a.high for a in several)
        return self.call(self.pick("coalesce", "ifnull", "min", "max", "nullif"), several, INT, low, high)

    def arithmetic(self, a, b):
        operator = self.pick("+", "-", "*")
        corners = {"+": [a.low + b.low, a.high + b.high], "-": [a.low - b.high, a.high - b.low], "*": [x * y for x in (a.low, a.high) for y in (b.low, b.high)]}[operator]
        low, high = min(corners), max(corners)
        if not fits(low, high) and self.chance(0.8):   # most of the time it must fit
            a = self.infix(a, "%", self.constant("1000", INT), PRODUCT, INT, -999, 999)
            b = self.infix(b, "%", self.constant("77", INT), PRODUCT, INT, -76, 76)
            low, high = -10**6, 10**6
        e = self.infix(a, operator, b, PRODUCT if operator == "*" else SUM, INT, max(low, LEAST), min(high, GREATEST))
        e.risky |= not fits(low, high)
        return e

    def case(self, value, kind, depth):
        conditions = [self.truth(depth) for _ in range(self.r.randrange(1, 3))]
        values = [value() for _ in conditions]
        other = value() if self.chance(0.7) else None
        text = " ".join(f"WHEN {c.sql} THEN {v.sql}" for c, v in zip(conditions, values)) + (f" ELSE {other.sql}" if other else "")
        first = ""
        if self.chance(0.15):   # CASE x WHEN y
            subject = self.whole(0)
            text = " ".join(f"WHEN {self.integer(True).sql} THEN {v.sql}" for v in values) + (f" ELSE {other.sql}" if other else "")
            first, conditions = subject.sql + " ", [subject]
        values += [other] if other else []
        return Expr(f"CASE {first}{text} END", kind, low=min(v.low for v in values), high=max(v.high for v in values), risky=any(e.risky for e in conditions + values))

    def words(self, depth):
        """Returns an expression of type TEXT."""
        columns = [c for c in self.of(TEXT) if not c.known]
        if depth <= 0 or self.chance(0.5):
            if self.chance(0.3):
                found = self.known_of(TEXT)
                if found:
                    return found
            return self.leaf(self.r.choice(columns)) if columns else self.constant("'a'", TEXT)
        choice = self.r.randrange(3)
        if choice == 0:
            return self.case(lambda: self.constant(self.pick("'low'", "'high'", "''", "'é'"), TEXT), TEXT, depth - 1)
        if choice == 1:
            return self.call(self.pick("coalesce", "ifnull"), [self.words(0), self.constant("'none'", TEXT)], TEXT)
        return self.call("nullif", [self.words(0), self.constant(self.pick("'a'", "''"), TEXT)], TEXT)

    def truth(self, depth):
        """Returns a condition."""
        if depth > 0 and self.chance(0.35):
            if self.chance(0.25):
                a = self.truth(depth - 1)
                return Expr("NOT " + self.wrap(a, NOT), INT, NOT, 0, 1, risky=a.risky)
            word, strength = self.pick(("AND", AND), ("OR", OR))
            self.within_or += word == "OR"
            a, b = self.truth(depth - 1), self.truth(depth - 1)
            self.within_or -= word == "OR"
            return Expr(f"{self.wrap(a, strength)} {self.pick(word, word.lower())} {self.wrap(b, strength + 1)}", INT, strength, 0, 1, risky=a.risky or b.risky)
        if self.chance(0.06):
            a = self.pick(self.truth, self.number)(depth - 1) if depth > 0 else self.number(0)
            return Expr(f"{self.wrap(a, EQUAL + 1)} IS {self.pick('', 'NOT ')}{self.pick('TRUE', 'FALSE', 'true', '(TRUE)', '(1 IN ())')}", INT, EQUAL, 0, 1, risky=a.risky)
        choice = self.r.randrange(12)
        if choice < 4:
            a, b = self.number(depth - 1), self.number(0)
            return self.compared(a, b)
        if choice == 4:
            return self.compared_column()
        if choice == 5:
            a, low, high = self.number(depth - 1), self.number(0), self.number(0)
            text = f"{self.wrap(a, EQUAL + 1)} {self.pick('', 'NOT ')}BETWEEN {self.wrap(low, EQUAL + 1)} AND {self.wrap(high, EQUAL + 1)}"
            return Expr(text, INT, EQUAL, 0, 1, risky=a.risky or low.risky or high.risky)
        if choice == 6:
            a = self.number(depth - 1)
            values = [self.real() if self.chance(0.3) else self.integer() for _ in range(self.r.randrange(1, 5))]
            if self.chance(0.1):
                values.append(self.constant("NULL", INT))
            return Expr(f"{self.wrap(a, EQUAL + 1)} {self.pick('', 'NOT ')}IN ({', '.join(v.sql for v in values)})", INT, EQUAL, 0, 1, risky=a.risky)
        if choice == 7:
            column = self.r.choice(self.columns)
            return Expr(f"{self.name(column)} {self.pick('IS NULL', 'IS NOT NULL', 'ISNULL', 'NOTNULL', 'NOT NULL')}", INT, EQUAL, 0, 1)
        if choice == 8:
            return self.known_of(INT) or self.compared(self.float(0), self.real())
        if choice == 9:
            return self.text_condition()
        if choice == 10:
            return self.date_condition() or self.text_condition()
        unsigned = self.of(UNSIGNED)
        if not unsigned:
            return self.compared(self.float(0), self.real())
        return Expr(f"{self.name(unsigned[0])} {self.pick('=', '<', '>=', '<>')} {self.pick('7', '1', '9223372036854775807', '9007199254740993', '0')}", INT, EQUAL, 0, 1)

    def compared(self, a, b):
        operator, strength = self.pick(("=", EQUAL), ("==", EQUAL), ("<>", EQUAL), ("!=", EQUAL), ("<", LESS), ("<=", LESS), (">", LESS), (">=", LESS), ("IS", EQUAL), ("IS NOT", EQUAL))
        if operator.startswith("IS") and self.version >= (3, 39) and self.chance(0.4):
            operator += " DISTINCT FROM"
        return self.infix(a, f" {operator}", b, strength, INT, 0, 1)

    def compared_column(self):
        """Compares a column of numbers with a number that is written as text."""
        column = self.r.choice(self.of(INT, REAL))
        value = self.r.choice(column.values) if column.values else 5
        text = real_text(value) if isinstance(value, float) and not math.isinf(value) else str(value) if isinstance(value, int) else "12"
        return Expr(f"{self.name(column)} {self.pick('=', '>', '<=', '<>')} '{text}'", INT, EQUAL, 0, 1)

    def text_condition(self):
        columns = [c for c in self.of(TEXT)]
        column = self.r.choice(columns)
        x = self.name(column) + (" COLLATE BINARY" if self.chance(0.08) else "")
        choice = self.r.randrange(6)
        if choice == 0:
            return Expr(f"{x} {self.pick('', 'NOT ')}LIKE {self.pick(quoted('%a%'), quoted('_'), quoted('B%'), quoted('é%'), quoted('10'), quoted('%'))}", INT, EQUAL, 0, 1)
        if choice == 1:
            return Expr(f"{x} {self.pick('', 'NOT ')}GLOB {self.pick(quoted('*a*'), quoted('?'), quoted('[a-c]*'), quoted('é*'), quoted('*'))}", INT, EQUAL, 0, 1)
        if choice == 2:
            return Expr(f"{x} {self.pick('', 'NOT ')}IN ({', '.join(self.text_like(column) for _ in range(self.r.randrange(1, 4)))})", INT, EQUAL, 0, 1)
        if choice == 3:
            return Expr(f"{x} BETWEEN {self.text_like(column)} AND {self.text_like(column)}", INT, EQUAL, 0, 1)
        return Expr(f"{x} {self.pick('=', '<', '>', '<=', '>=', '<>', 'IS', 'IS NOT')} {self.text_like(column)}", INT, EQUAL, 0, 1)

    def date_like(self, column):
        """Returns a value of the column, or a text of another precision, which a table compares by instants in some places. Within OR
        the plan decides whether the view does so."""
        text = str(self.r.choice(column.values))
        if self.within_or or self.chance(0.6) or "-" not in text[1:]:
            return quoted(text)
        day = text[:10]
        return self.pick(quoted(day[:7]), quoted(day[:4]), quoted(text + "Z"), quoted(day + " 00:00:00"), quoted(day + "T00:00"), f"datetime({quoted(day)})", f"date({quoted(day)}, '+1 day')", f"{quoted(day[:7])} || '-02'")

    def date_condition(self):
        columns = [c for c in self.of(DATE) if c.values]
        if not columns:
            return None
        column = self.r.choice(columns)
        x, values = self.name(column), [self.date_like(column) for _ in range(3)]
        if self.chance(0.25):
            return Expr(f"{x} IN ({', '.join(values)})", INT, EQUAL, 0, 1)
        if self.chance(0.3):
            return Expr(f"{x} {self.pick('', 'NOT ')}BETWEEN {values[0]} AND {values[1]}", INT, EQUAL, 0, 1)
        return Expr(f"{x} {self.pick('=', '<', '>', '<=', '>=', '<>')} {values[0]}", INT, EQUAL, 0, 1)

    # ---- Queries ----

    def key(self):
        """Returns an expression by which rows are grouped."""
        choice = self.r.random()
        if choice < 0.3:
            dims = [c for c in self.columns if c.known]
            return self.leaf(self.r.choice(dims))
        if choice < 0.65:
            return self.known(self.r.choice([c for c in self.columns if c.known]))
        if choice < 0.75:
            return self.leaf(self.r.choice([c for c in self.columns if c.kind not in (OPAQUE, REAL)]))
        if choice < 0.85:
            width = self.pick("5", "10.0", "2.5")
            reals = self.of(REAL)
            return Expr(f"floor({self.name(self.r.choice(reals))}/{width})*{width}", REAL, PRODUCT)
        if choice < 0.89:
            return self.mixed("-7")
        if choice < 0.94:
            e = self.whole(2)
        else:
            e = self.pick(self.float, self.words, self.truth)(2)
        return self.key() if bare_number(e.sql) else e   # it would be the number of a column

    def filter(self, q):
        if not self.chance(0.2):
            return ""
        e = self.truth(2)
        q.risky |= e.risky
        return f" FILTER (WHERE {e.sql})"

    def mixed(self, *literals):
        """Returns a CASE with REAL in one branch and an INTEGER literal in another, which depends on an attribute."""
        c = self.truth(1)
        return Expr(f"CASE WHEN {c.sql} THEN {self.name(self.r.choice(self.of(REAL)))} {self.pick('', '+ 0.5', '* 2')} ELSE {self.pick(*(literals or ('0', '1', '-7')))} END", "number", risky=c.risky)

    def aggregate(self, q):
        where = self.filter(q)
        choice = self.r.randrange(12)
        if choice == 0:
            return Item(self.pick("count(*)", "count(*)", "count()", "COUNT( * )") + where, kind=INT)
        if choice == 1:
            return Item(f"count({self.name(self.r.choice(self.columns))}){where}", kind=INT)
        if choice == 2:
            e = self.pick(self.whole, self.words, self.float)(1) if self.chance(0.6) else self.known_of(self.pick(INT, TEXT)) or self.whole(1)
            q.risky |= e.risky
            return Item(f"count(DISTINCT {e.sql}){where}", kind=INT)
        if choice == 3:
            e = self.whole(2)
            q.risky |= e.risky or not fits(e.low * 10**5, e.high * 10**5)
            return Item(f"sum({self.pick('', '', '', 'DISTINCT ')}{e.sql}){where}", kind=INT)
        if choice == 4:
            e = self.whole(2)
            q.risky |= e.risky
            return Item(f"{self.pick('avg', 'total')}({e.sql}){where}", "sum", REAL, argument=f"CAST({e.sql} AS REAL)", where=where)
        if choice == 5:
            e = self.mixed()
            q.risky |= e.risky
            name = self.pick("sum", "avg", "total", "min", "max", "count")
            return Item(f"{name}({e.sql}){where}", "number" if name in ("min", "max") else "exact" if name == "count" else "sum", REAL, argument=e.sql, where=where)
        if choice in (6, 7):
            e = self.pick(self.whole, self.float, self.float, self.words)(2)
            q.risky |= e.risky
            return Item(f"{self.pick('min', 'max')}({e.sql}){where}", kind=e.kind)
        if choice == 8:
            columns = [c for c in self.columns if c.kind in (DATE, UNSIGNED, TEXT)]
            column = self.r.choice(columns)
            return Item(f"{self.pick('min', 'max', 'count')}({self.name(column)}){where}")
        if choice == 9:
            e = self.libm(1)
            q.risky |= e.risky
            return Item(f"{self.pick('min', 'max')}({e.sql}){where}", "libm", REAL)
        e = self.float(self.pick(1, 1, 2, 3))
        q.risky |= e.risky
        return Item(f"{self.pick('avg', 'sum', 'total')}({e.sql}){where}", "sum", REAL, argument=e.sql, where=where)

    def after(self, q):
        """Returns an expression around aggregates that are items, and around keys."""
        choices = [n for n, i in enumerate(q.items) if not i.known and i.how in ("sum", "exact", "libm") and i.kind in (REAL, INT)]
        if not choices:
            return None
        n = self.r.choice(choices)
        form = self.pick("round({0}, 1)", "{0} * 2 - 1", "CASE WHEN {0} > 3 THEN 'many' ELSE 'few' END", "coalesce({0}, -1)", "printf('%.3f', {0})", "typeof({0})", "{0} IS NULL", "abs(round({0}))")
        return Item(form.format(q.items[n].sql), "after", argument=n, template=form.format("?1"))

    def source(self):
        as_of, alias = "", ""
        if self.chance(0.12):
            as_of = f"('{self.array.middle}')"
        elif self.chance(0.05):
            as_of = "('2090-01-01', '1990-01-01')"
        self.prefix = self.array.name + "."
        if self.chance(0.3):
            alias = self.pick(" a", " AS a", ' AS "a b"')
            self.prefix = ('"a b"' if '"' in alias else "a") + "."
        return f"{self.pick('', '', 'main.')}{self.array.name}{as_of}{alias}"

    def query(self):
        q = Query(self.source())
        if self.chance(0.7):
            e = self.truth(self.r.randrange(5))
            q.where, q.risky = e.sql, e.risky
        if self.chance(0.2):
            self.cells(q)
        else:
            self.grouped(q)
        return q

    def limit(self, q):
        if q.order and self.chance(0.4):
            n = self.r.randrange(0, 30)
            q.limit = self.pick(f"LIMIT {n}", f"LIMIT {n} OFFSET {self.r.randrange(4)}", f"LIMIT {self.r.randrange(4)}, {n}", "LIMIT -1")

    def directed(self, term):
        return term + self.pick("", "", " ASC", " DESC", " NULLS LAST", " DESC NULLS FIRST")

    def cells(self, q):
        """Rows are cells."""
        if self.chance(0.15):
            q.items = [Item(f"{c.sql}") for c in self.columns if c.kind != OPAQUE]
            if len(q.items) == len(self.columns):
                q.star = self.pick("*", self.prefix + "*")
            return
        for n in range(self.r.randrange(1, 5)):
            if self.chance(0.35):
                e = self.leaf(self.r.choice([c for c in self.columns if c.kind != OPAQUE]))
            else:
                e = self.pick(self.whole, self.float, self.float, self.words, self.truth, self.libm)(2)
                q.risky |= e.risky
            known = e.column is not None
            q.items.append(Item(e.sql, "libm" if e.ulps else "exact", e.kind, f"c{n}" if self.chance(0.7) else None, known=known))
        exact = all(i.how == "exact" for i in q.items)
        q.distinct = exact and self.chance(0.15)
        if exact and self.chance(0.4):
            q.order = [self.directed(self.pick(str(n + 1), i.alias or (str(n + 1) if bare_number(i.sql) else i.sql))) for n, i in enumerate(q.items)]
            q.ordered = True
            self.limit(q)

    def grouped(self, q):
        """Rows are groups."""
        q.groups = True
        keys = [self.key() for _ in range(self.pick(0, 1, 1, 1, 2, 2, 3))]
        q.risky |= any(k.risky for k in keys)
        for n, k in enumerate(keys):
            alias = f"k{n}" if self.chance(0.6) else None
            q.items.append(Item(k.sql, kind=k.kind, alias=alias, known=True))
            q.keys.append(self.pick(k.sql, str(n + 1), alias or k.sql, k.sql))
        for n in range(self.r.randrange(0 if keys else 1, 5)):
            item = self.aggregate(q)
            item.alias = f"g{n}" if self.chance(0.5) else None
            q.items.append(item)
        if self.chance(0.3):
            item = self.after(q)
            q.items += [item] if item else []
        if keys and self.chance(0.2):
            self.have(q)
        if keys and self.chance(0.4):
            q.order = [self.directed(self.pick(str(n + 1), i.alias or i.sql)) for n, i in enumerate(q.items[:len(keys)])]
            exact = [(n, i) for n, i in enumerate(q.items) if i.how == "exact" and n >= len(keys)]
            if exact and self.chance(0.4):
                n, item = self.r.choice(exact)
                q.order.insert(0, self.directed(self.pick(str(n + 1), item.alias or item.sql)))
            q.ordered = True
            self.limit(q)

    def have(self, q):
        exact = [i for i in q.items if i.how == "exact"]
        item = self.r.choice(exact)
        term = self.pick(item.alias or item.sql, "count(*)", item.sql)
        q.having = self.pick(f"({term}) IS NOT NULL", f"({term}) > 1", f"({term}) <> 3", f"count(*) BETWEEN 2 AND 40 OR ({term}) IS NULL", f"min({self.name(self.of(REAL)[0])}) > 270.0")


# ---- Texts that are wrong --------------------------------------------------------------------------------------------------

WRONG_ITEMS = ["sum(temp) OVER ()", "upper(name)", "(SELECT 1)", "name COLLATE NOCASE", "group_concat(name)", "CAST(temp AS TEXT)", '"nosuch"', "nosuch", "nosuch(1)", "?", ":a", "name || 'x'",
               "CASE WHEN temp > 1 THEN 1 ELSE temp END", "name > 5", "temp = name", "EXISTS (SELECT 1)", "random()", "load_extension('x')", "rowid", "as_of", "writefile('x', 'y')", "x'00'", "likelihood(temp, 0.5)",
               "abs(temp, 2)", "min()", "sum(DISTINCT temp)", "json('1')", "name ->> 'a'", "total(*)", "temp NOT IN ()", "temp IN stations", "1 IN (SELECT 1)", "round(temp, 2)", "substr(name, 1, 1)",
               "avg(avg(temp))", "max(temp) FILTER (WHERE count(*))", "temp MATCH 'a'", "temp REGEXP 'a'", "raise(ignore)", "last_insert_rowid()", "changes()", "zeroblob(9)", "sum(name)", "count(temp, rain)", "name LIKE name",
               "name LIKE '%a' ESCAPE '!'", "coalesce(temp, name)", "current_timestamp", "TRUE", "iif(temp, 1)", "- name", "name + 1", "seen + 1", "u + 1", "+seen", "date('now') > seen", "(temp, rain) = (1, 2)", "NOT name",
               "group_concat(temp, ',')", "percentile(temp, 50)", "temp IS TRUE", "vector", "tessera_version()", "((((temp))))", "min(temp, 1)", "temp AND name", "'a' < 1", "stations.temp", "main.cube.temp",
               "CAST(temp AS BLOB)", "CAST(temp AS NUMERIC)", "1e", "1_0", "temp -- x", "temp /* x */", "sum(temp) + lat", "count(*) FILTER (WHERE 1) OVER ()", "TYPEOF(temp)", "count(DISTINCT *)", "sum(ALL temp)"]
WRONG_TAILS = ["UNION SELECT 1", "; DROP TABLE plane", "LIMIT ?", "LIMIT (SELECT 1)", "ORDER BY 1 COLLATE NOCASE", "GROUP BY 99", "ORDER BY 99", "HAVING 1", "WINDOW w AS ()", "LIMIT 'a'", "ORDER BY nosuch", "GROUP BY temp COLLATE BINARY",
               "LIMIT 1.5", "LIMIT -5 OFFSET -3", "WHERE 1 WHERE 1", "GROUP BY", "ORDER BY 1 ORDER BY 2", "INTERSECT SELECT 2", ") --", "LIMIT 1 OFFSET", "ORDER BY random()", "FOR UPDATE", "GROUP BY 1.0", "GROUP BY '1'", "GROUP BY NULL", "GROUP BY 1+0",
               "HAVING count(*) > (SELECT 1)", "ORDER BY (1)", "GROUP BY (1), 1"]
WRONG_SOURCES = ["nosuch", "plane, cube", "plane JOIN cube", "(SELECT * FROM plane)", "ordinary", "a_view", "sqlite_schema", "plane INDEXED BY i", "plane NOT INDEXED", "pragma_table_info('plane')", "plane(1, 2, 3)",
                 "plane('now')", "plane(NULL)", "plane('nonsense')", "temp.plane", "other.plane", "plane LEFT JOIN cube ON 1", "plane a, plane b", "json_each('[1]')", "(plane)", "tessera_array('db:plane')", "plane AS", "plane((SELECT 1))", "plane(random())"]
TOKEN = re.compile(r"""\s+|--[^\n]*|'(?:[^']|'')*'|"(?:[^"]|"")*"|\[[^\]]*\]|`[^`]*`|[A-Za-z_][A-Za-z_0-9]*|[0-9][0-9A-Fa-fxX.]*(?:e[+-]?[0-9]+)?|<>|<=|>=|==|!=|<<|>>|\|\||.""", re.S)


def spoil(r, q):
    """Returns a text that is wrong in some way, or may be."""
    choice = r.random()
    q = copy.deepcopy(q)
    if choice < 0.4:
        wrong = r.choice(WRONG_ITEMS)
        place = r.randrange(5)
        if place == 0:
            q.items.insert(r.randrange(len(q.items) + 1), Item(wrong))
        elif place == 1:
            q.items.append(Item(f"{r.choice(['sum', 'max', 'count'])}({wrong})"))
        elif place == 2:
            q.where = f"({q.where or 1}) AND {wrong}"
        elif place == 3:
            q.keys.append(wrong)
        else:
            q.order.append(wrong)
        return q.text()
    if choice < 0.5:
        q.source = r.choice(WRONG_SOURCES)
        return q.text()
    if choice < 0.62:
        return q.text() + " " + r.choice(WRONG_TAILS)
    if choice < 0.66:
        return r.choice(["WITH x AS (SELECT 1) ", "EXPLAIN ", "VALUES(1), ", "(", "ALL "]) + q.text()
    tokens = TOKEN.findall(q.text())
    for _ in range(r.randrange(1, 3)):
        at = r.randrange(1, len(tokens)) if len(tokens) > 1 else 0
        change = r.randrange(4)
        if change == 0:
            del tokens[at]
        elif change == 1:
            tokens.insert(at, tokens[r.randrange(len(tokens))])
        elif change == 2:
            other = r.randrange(1, len(tokens))
            tokens[at], tokens[other] = tokens[other], tokens[at]
        else:
            tokens[at] = r.choice(["NULL", "1", "'a'", "temp", "name", "count(*)", "*", ",", "-", "NOT", "AND", "lat", "day", "wind", "0.5"])
        if not tokens:
            tokens = ["SELECT"]
    return "".join(tokens) if tokens[0].upper() == "SELECT" else "SELECT " + "".join(tokens)


def dressed(r, text):
    """Returns the text with other blanks and with comments between its tokens."""
    if r.random() < 0.6:
        return text
    found = []
    for token in TOKEN.findall(text):
        found.append(r.choice([" ", "\n", "  ", " /* a, b ( */ ", " -- c, 'd\n", "\t"]) if token.isspace() and r.random() < 0.3 else token)
    return "".join(found)
