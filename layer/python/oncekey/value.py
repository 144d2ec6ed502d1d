"""Immutable values with named fields, for classes that every cold start needs.

They are used like frozen dataclasses, and type checkers take them for such. The difference is the
cost of the class: `dataclasses` compiles several methods for each one, which was most of the import
time of a decorated handler. Here all classes share the methods of `Value`. The functions `fields`,
`replace` and `asdict` of `dataclasses` do not work on values: use `fields_` and `replace` of here.
"""

from __future__ import annotations

from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, dataclass_transform

if TYPE_CHECKING:
    from collections.abc import Callable, KeysView

MISSING: Any = object()
_new = object.__new__
_set = object.__setattr__
V = TypeVar("V", bound="Value")


class Field:
    """One field of a class."""

    __slots__ = (
        *("default", "factory", "is_compared", "is_given", "is_hashed", "is_keyword"),
        *("is_shown", "name"),
    )

    def __init__(
        self,
        default: Any,
        factory: Callable[[], Any] | None,
        *,
        is_given: bool,
        is_shown: bool,
        is_compared: bool,
        is_hashed: bool,
    ) -> None:
        self.name = ""
        self.default = default
        self.factory = factory
        self.is_given = is_given
        self.is_shown = is_shown
        self.is_compared = is_compared
        self.is_hashed = is_hashed
        self.is_keyword = False


def field(
    *,
    default: Any = MISSING,
    default_factory: Callable[[], Any] | None = None,
    init: bool = True,
    repr: bool = True,  # noqa: A002 -- the names are those of `dataclasses.field`
    compare: bool = True,
    hash: bool | None = None,  # noqa: A002 -- as above
) -> Any:
    """What is special about a field. The arguments mean the same as for `dataclasses.field`."""
    return Field(
        default,
        default_factory,
        is_given=init,
        is_shown=repr,
        is_compared=compare,
        is_hashed=compare if hash is None else hash,
    )


def _picker_of(names: KeysView[str]) -> Callable[[Any], object]:
    return itemgetter(*names) if names else type


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Value:
    """The base class of values. With `kw_only=True`, a class takes all its fields by name.

    Values of one class are equal if their compared fields are, and then have one hash.
    `__post_init__` is called at the end of the initialisation, if a class has it.
    """

    # By name, in order. Other modules read it.
    fields_: ClassVar[dict[str, Field]] = {}
    _defaults: ClassVar[dict[str, Any]] = {}
    _factories: ClassVar[dict[str, Callable[[], Any]]] = {}
    # The fields that a caller gives, or that have a default.
    _names: ClassVar[KeysView[str]] = {}.keys()
    # Takes these out of a dictionary. To compare the names takes three times as long.
    _picked: ClassVar[Callable[[Any], object]] = type
    # The fields that a class fills itself.
    _computed: ClassVar[tuple[str, ...]] = ()
    _positional: ClassVar[tuple[str, ...]] = ()
    _compared: ClassVar[tuple[str, ...]] = ()
    _hashed: ClassVar[Callable[[Any], object]] = type
    _compares_all: ClassVar[bool] = True
    # Whether all fields are given by the caller, or have a plain default.
    _is_simple: ClassVar[bool] = True

    def __init_subclass__(cls, *, kw_only: bool = False, **options: Any) -> None:
        """Collect the fields of a new class: those of its base classes, then its own."""
        super().__init_subclass__(**options)
        known = dict(cls.fields_)
        for name, kind in cls.__dict__.get("__annotations__", {}).items():  # noqa: RUF063 -- importing `inspect` takes longer than this module saves
            if str(kind).startswith("ClassVar"):
                continue
            stated = cls.__dict__.get(name, MISSING)
            if type(stated).__module__ == "dataclasses":
                raise TypeError(f"{cls.__name__}.{name}: use the `field` of {__name__}")
            if not isinstance(stated, Field):
                stated = field(default=stated)
            stated.name = name
            stated.is_keyword = kw_only
            known[name] = stated
            if stated.default is not MISSING:
                setattr(cls, name, stated.default)
            elif name in cls.__dict__:
                delattr(cls, name)
        cls.fields_ = known
        all_fields = known.values()
        cls._defaults = {
            each.name: each.default for each in all_fields if each.default is not MISSING
        }
        cls._factories = {
            each.name: each.factory for each in all_fields if each.factory is not None
        }
        cls._names = {
            each.name: None
            for each in all_fields
            if each.is_given or each.name in cls._defaults or each.factory is not None
        }.keys()
        cls._computed = tuple(each.name for each in all_fields if not each.is_given)
        cls._positional = tuple(
            each.name for each in all_fields if each.is_given and not each.is_keyword
        )
        setattr(cls, "__match_args__", cls._positional)  # noqa: B010 -- type checkers derive it from the fields
        cls._compared = tuple(each.name for each in all_fields if each.is_compared)
        hashed = [each.name for each in all_fields if each.is_hashed]
        cls._hashed = staticmethod(attrgetter(*hashed) if hashed else type)
        cls._picked = staticmethod(_picker_of(cls._names))
        cls._is_simple = not (
            cls._computed or cls._factories or cls.__post_init__ is not Value.__post_init__
        )
        cls._compares_all = len(cls._compared) == len(known)

    def __init__(self, *by_position: Any, **given: Any) -> None:
        cls = type(self)
        if by_position:
            self._add_positional(by_position, given)
        values = cls._defaults | given if cls._defaults else given
        if cls._is_simple:
            try:
                cls._picked(values)
            except KeyError:
                raise TypeError(self._wrongly_given(values)) from None
            if len(values) != len(cls._names):
                raise TypeError(self._wrongly_given(values))
            _set(self, "__dict__", values)
            return
        for name in cls._computed:
            if name in given:
                raise TypeError(f"{cls.__name__} fills {name!r} itself")
        for name, make in cls._factories.items():
            if name not in values:
                values[name] = make()
        if values.keys() != cls._names:
            raise TypeError(self._wrongly_given(values))
        _set(self, "__dict__", values)
        self.__post_init__()

    def __post_init__(self) -> None:
        """Nothing; classes compute their other fields here."""

    def _add_positional(self, by_position: tuple[Any, ...], given: dict[str, Any]) -> None:
        names = self._positional
        if len(by_position) > len(names):
            raise TypeError(f"{type(self).__name__} takes at most {len(names)} positional values")
        for name, value in zip(names, by_position, strict=False):
            if name in given:
                raise TypeError(f"{type(self).__name__} got two values of {name!r}")
            given[name] = value

    def _wrongly_given(self, values: dict[str, Any]) -> str:
        known = self._names
        missing = ", ".join(repr(name) for name in known if name not in values)
        unknown = ", ".join(repr(name) for name in values if name not in known)
        faults = [f"needs {missing}"] if missing else []
        faults += [f"has no {unknown}"] if unknown else []
        return f"{type(self).__name__} {' and '.join(faults)}"

    def __setattr__(self, name: str, _value: object) -> None:
        raise AttributeError(f"a {type(self).__name__} cannot be changed: {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a {type(self).__name__} cannot be changed: {name!r}")

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(self) is not type(other):
            return NotImplemented
        if self._compares_all:
            return self.__dict__ == other.__dict__
        return all(getattr(self, name) == getattr(other, name) for name in self._compared)

    def __hash__(self) -> int:
        return hash(type(self)._hashed(self))  # noqa: SLF001 -- of the same class

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{each.name}={getattr(self, each.name)!r}"
            for each in self.fields_.values()
            if each.is_shown
        )
        return f"{type(self).__qualname__}({shown})"

    def __replace__(self, **changes: Any) -> Self:
        cls = type(self)
        values = self.__dict__ | changes
        if cls._is_simple and len(values) == len(cls._names):
            # No name was added, and nothing is filled in: it is as complete as this value.
            copy = _new(cls)
            _set(copy, "__dict__", values)
            return copy
        for name in cls._computed:
            if name not in changes:
                del values[name]
        return cls(**values)


def replace(value: V, **changes: Any) -> V:
    """A copy of `value` with these fields changed."""
    return value.__replace__(**changes)
